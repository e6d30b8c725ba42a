"""Capability for Pydantic AI agents.

    agent = Agent(model, capabilities=[NacreCapability(Layers(results=Path("results")))])

The run's own messages stay unchanged, so that `all_messages` is complete; only the request is smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from nacre.formatting import how_to_install

try:
    from pydantic_ai.capabilities import AbstractCapability
except ImportError as error:
    raise ImportError(f"this module needs Pydantic AI: {how_to_install('pydantic-ai')}") from error
from pydantic_ai import RunContext, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.toolsets import AgentToolset, FunctionToolset
from pydantic_ai.usage import RequestUsage
from pydantic_core import to_jsonable_python

from nacre.errors import ToolError
from nacre.integrations.framework_session import (
    Follower,
    FrameworkMessage,
    Layers,
    MessageToSend,
    holds_reasoning,
)
from nacre.layers.l1_offload.reader import result_reader
from nacre.messages.blocks import Block, JsonObject, Opaque, ResultPart, Text, Thinking, ToolCall, ToolResult
from nacre.messages.usage import Usage
from nacre.session.session import Base

RETRIES = frozenset({"retry-prompt", "retry-feedback"})
CONTENT = RETRIES | {"user-prompt", "tool-return"}
"""Parts that are content for the model; the others configure it and survive a compaction."""


@dataclass
class NacreCapability(AbstractCapability[Any]):
    """Shrinks requests and attaches memories."""

    layers: Layers
    _follower: Follower = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._follower = Follower(self.layers)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: it holds a memory and a path, which cannot be serialised."""
        return None

    def get_toolset(self) -> AgentToolset[Any] | None:
        """Return the tool that reads offloaded results, if any are offloaded."""
        return None if self.layers.results is None else FunctionToolset([_reader(self.layers)])

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send the view instead of the history."""
        history = request_context.messages
        told = [_told(message) for message in history]
        standing = await self._follower.shown(told, _base(request_context))
        return replace(request_context, messages=_merged(_shown(standing, history)))


def _told(message: ModelMessage) -> FrameworkMessage:
    if isinstance(message, ModelResponse):
        blocks = tuple(_said(part) for part in message.parts)
        return FrameworkMessage(role="assistant", blocks=blocks, usage=_usage(message.usage, blocks))
    return FrameworkMessage(
        role="user", blocks=tuple(block for part in message.parts for block in _heard(part))
    )


def _said(part: Any) -> Block:
    if isinstance(part, TextPart):
        return Text(part.content)
    if isinstance(part, ThinkingPart):
        return Thinking(part.content, part.signature)
    if isinstance(part, ToolCallPart):
        return ToolCall(part.tool_call_id, part.tool_name, cast("JsonObject", part.args_as_dict()))
    return _opaque(part)


def _heard(part: Any) -> tuple[Block, ...]:
    if isinstance(part, UserPromptPart):
        prompt = [part.content] if isinstance(part.content, str) else part.content
        return tuple(_shown_or_said(one) for one in prompt)
    if isinstance(part, ToolReturnPart):
        content: tuple[ResultPart, ...] = (Text(part.model_response_str()), *map(_opaque, part.files))
        return (ToolResult(part.tool_call_id, content, part.outcome == "failed"),)
    if part.part_kind in RETRIES:
        words = Text(part.model_response())
        is_result = getattr(part, "tool_name", None) is not None
        return (ToolResult(part.tool_call_id, (words,), is_error=True) if is_result else words,)
    return (_opaque(part),)


def _shown_or_said(content: Any) -> Block:
    """Text beside an image is text: memories are recalled by it, and a compaction keeps it."""
    if isinstance(content, str | TextContent):
        return Text(content if isinstance(content, str) else content.content)
    return _opaque(content)


def _opaque(part: Any) -> Opaque:
    wire = to_jsonable_python(part, bytes_mode="base64", fallback=repr)
    return Opaque(getattr(part, "part_kind", None) or part.kind, cast("JsonObject", wire))


def _usage(counted: RequestUsage, blocks: Sequence[Block]) -> Usage | None:
    """Pydantic AI's input tokens include those read from and written to the cache, the output reasoning."""
    if not counted.input_tokens:
        return None
    read = counted.cache_read_tokens
    written = counted.cache_write_tokens
    fresh = max(0, counted.input_tokens - read - written)
    output = counted.output_tokens
    reasoning = counted.details.get("reasoning_tokens", 0)
    return Usage(
        input=fresh,
        cache_read=read,
        cache_write=written,
        output=output,
        discarded=0 if holds_reasoning(blocks) else min(reasoning, output),
    )


def _shown(standing: Sequence[MessageToSend], history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the messages in view, preceded by the settings of those that are not."""
    there = {stood.place for stood in standing}
    gone = [one for n, one in enumerate(history) if n not in there and isinstance(one, ModelRequest)]
    settings = [part for one in gone for part in one.parts if part.part_kind not in CONTENT]
    first: list[ModelMessage] = [ModelRequest(parts=settings)] if settings else []
    return first + [_rewritten(stood, history) for stood in standing]


def _rewritten(standing: MessageToSend, history: Sequence[ModelMessage]) -> ModelMessage:
    if standing.place is None:
        return ModelRequest(parts=[UserPromptPart(standing.text)])
    message = history[standing.place]
    if standing.is_same:
        return message
    if isinstance(message, ModelResponse):
        # Remove thinking that is bound to bytes that are gone (C12b); the rest of the reply stays.
        kept = [part for part in message.parts if not isinstance(part, ThinkingPart)]
        has_thinking = any(isinstance(block, Thinking) for block in standing.blocks)
        return message if has_thinking else replace(message, parts=kept)
    now = {block.call_id: block for block in standing.blocks if isinstance(block, ToolResult)}
    return replace(message, parts=[_part(part, now) for part in message.parts])


def _part(part: Any, now: dict[str, ToolResult]) -> Any:
    before = next(iter(_heard(part)), None)
    if not isinstance(before, ToolResult) or now.get(before.call_id, before) == before:
        return part
    result = now[before.call_id]
    text = result.text
    if isinstance(part, ToolReturnPart):
        # Only text was moved to disk; images are removed only if a whole result is cleared.
        has_files = any(isinstance(one, Opaque) for one in result.content)
        return replace(part, content=[text, *part.files] if has_files else text)
    return ToolReturnPart(part.tool_name, text, tool_call_id=before.call_id)


def _merged(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Merge consecutive requests: what is attached to a message is a part of it."""
    merged: list[ModelMessage] = []
    for message in messages:
        before = merged[-1] if merged else None
        if isinstance(message, ModelRequest) and isinstance(before, ModelRequest):
            instructions = message.instructions or before.instructions
            parts = [*before.parts, *message.parts]
            merged[-1] = replace(before, parts=parts, instructions=instructions)
        else:
            merged.append(message)
    return merged


def _base(request: ModelRequestContext) -> Base:
    """Return what precedes the messages; it is counted, never sent."""
    given = request.model_request_parameters
    words = "\n\n".join(part.content for part in given.instruction_parts or ())
    system: tuple[JsonObject, ...] = ({"type": "text", "text": words},) if words else ()
    tools: list[JsonObject] = [
        {"name": one.name, "description": one.description, "input_schema": one.parameters_json_schema}
        for one in given.function_tools
    ]
    return Base(request.model.model_name, instructions=system, tools=tuple(tools))


def _reader(layers: Layers) -> Tool[Any]:
    assert layers.results is not None, "asked only where there is a place"
    read = result_reader(layers.results)

    async def call(**arguments: Any) -> str:
        try:
            answer = await read.call(arguments)
        except ToolError as error:
            return str(error)  # not ModelRetry: the second one would end the run
        return answer if isinstance(answer, str) else answer.text

    schema = cast("dict[str, Any]", read.input_schema)
    return Tool.from_schema(call, read.name, read.description, schema)
