"""Middleware for LangChain agents and deepagents.

    agent = create_agent(model, tools, middleware=[NacreMiddleware(Layers(results=Path("results")))])

The agent's own messages stay unchanged in its state and checkpoints; only the request is smaller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import takewhile
from typing import Any, TypeVar, cast

from nacre.formatting import how_to_install

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
except ImportError as error:
    raise ImportError(f"this module needs LangChain: {how_to_install('langchain')}") from error
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import StructuredTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool

from nacre.errors import ToolError
from nacre.integrations.framework_session import (
    Follower,
    FrameworkMessage,
    Layers,
    MessageToSend,
    holds_reasoning,
)
from nacre.layers.l1_offload.reader import result_reader
from nacre.messages.blocks import Block, Json, JsonObject, Text, Thinking, ToolCall, ToolResult
from nacre.messages.usage import Usage
from nacre.messages.wire import parse_block, parse_content, render_blocks
from nacre.session.session import Base
from nacre.tools.base import Tool

CALL_BLOCKS = frozenset({"tool_use", "function_call", "input_json_delta"})
"""Block types of calls in a reply's content; LangChain also lists them separately."""
THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning"})
Answer = TypeVar("Answer")


class NacreMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Shrinks requests and attaches memories."""

    def __init__(self, layers: Layers) -> None:
        super().__init__()
        self._follower = Follower(layers)
        self.tools = [] if layers.results is None else [_as_langchain(result_reader(layers.results))]

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Send the view instead of the history."""
        return await handler(await self._shrunk(request))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """The same for an agent that is invoked without an event loop."""
        return handler(_awaited(self._shrunk(request)))

    async def _shrunk(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        # System messages ahead of the conversation are not compacted.
        rules = list(takewhile(lambda one: isinstance(one, SystemMessage), request.messages))
        sources = _grouped(request.messages[len(rules) :])
        told = [_told(source) for source in sources]
        standing = await self._follower.shown(told, _base(request, rules))
        shown = [one for stood in standing for one in _shown(stood, sources)]
        return request.override(messages=[*rules, *shown])


def _awaited(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine to its end, also inside a running event loop such as a notebook's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as beside:
        return beside.submit(copy_context().run, asyncio.run, work).result()


def _grouped(messages: Iterable[AnyMessage]) -> list[list[AnyMessage]]:
    """Group consecutive results, which answer one reply and are judged together (C5)."""
    groups: list[list[AnyMessage]] = []
    for message in messages:
        if isinstance(message, ToolMessage) and groups and isinstance(groups[-1][0], ToolMessage):
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _told(source: Sequence[AnyMessage]) -> FrameworkMessage:
    first = source[0]
    if isinstance(first, AIMessage):
        blocks = _said(first)
        return FrameworkMessage(role="assistant", blocks=blocks, usage=_usage(first.usage_metadata, blocks))
    if isinstance(first, ToolMessage):
        return FrameworkMessage(
            role="user", blocks=tuple(_result(one) for one in source if isinstance(one, ToolMessage))
        )
    return FrameworkMessage(role="user", blocks=_content(first))


def _said(message: AIMessage) -> tuple[Block, ...]:
    calls = (
        ToolCall(one["id"] or "", one["name"], cast("JsonObject", one["args"])) for one in message.tool_calls
    )
    return (*(block for block in _content(message) if not _is_call(block)), *calls)


def _is_call(block: Block) -> bool:
    return isinstance(block, ToolCall) or getattr(block, "kind", "") in CALL_BLOCKS


def _content(message: BaseMessage) -> tuple[Block, ...]:
    content = cast("Json", message.content)
    return () if content == "" else parse_content(content)


def _result(message: ToolMessage) -> ToolResult:
    content = cast("Json", message.content)
    wire: JsonObject = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content}
    block = parse_block({**wire, "is_error": True} if message.status == "error" else wire)
    assert isinstance(block, ToolResult), "written so above"
    return block


def _usage(counted: UsageMetadata | None, blocks: Sequence[Block]) -> Usage | None:
    """LangChain's input tokens include those read from and written to the cache, its output the reasoning."""
    if counted is None:
        return None
    details = counted.get("input_token_details", {})
    read = details.get("cache_read", 0)
    written = details.get("cache_creation", 0)
    fresh = max(0, counted["input_tokens"] - read - written)
    output = counted["output_tokens"]
    reasoning = counted.get("output_token_details", {}).get("reasoning", 0)
    return Usage(
        input=fresh,
        cache_read=read,
        cache_write=written,
        output=output,
        discarded=0 if holds_reasoning(blocks) else min(reasoning, output),
    )


def _shown(standing: MessageToSend, sources: Sequence[Sequence[AnyMessage]]) -> Sequence[AnyMessage]:
    if standing.place is None:
        return [HumanMessage(standing.text)]
    source = sources[standing.place]
    if standing.is_same:
        return source
    if isinstance(source[0], AIMessage):
        return [_without_thinking(source[0], standing.blocks)]
    if not isinstance(source[0], ToolMessage):
        return [source[0].model_copy(update={"content": render_blocks(standing.blocks)})]
    own = {one.tool_call_id: one for one in source if isinstance(one, ToolMessage)}
    results = [block for block in standing.blocks if isinstance(block, ToolResult)]
    return [_rewritten(own[result.call_id], result) for result in results]


def _rewritten(message: ToolMessage, result: ToolResult) -> ToolMessage:
    if _result(message) == result:
        return message
    is_plain = all(isinstance(part, Text) for part in result.content)
    content: Any = result.text if is_plain else render_blocks(result.content)
    return message.model_copy(update={"content": content, "artifact": None})


def _without_thinking(message: AIMessage, blocks: Sequence[Block]) -> AIMessage:
    """Remove thinking that is bound to bytes that are gone (C12b); the rest of the reply stays."""
    if any(isinstance(block, Thinking) for block in blocks) or isinstance(message.content, str):
        return message
    kept = [
        one for one in message.content if not (isinstance(one, dict) and one.get("type") in THINKING_BLOCKS)
    ]
    return message.model_copy(update={"content": kept})


def _base(request: ModelRequest[Any], rules: Sequence[AnyMessage]) -> Base:
    """Return what precedes the messages; it is counted, never sent."""
    model = getattr(request.model, "model_name", None) or getattr(request.model, "model", None)
    given = rules if request.system_message is None else [request.system_message, *rules]
    system: tuple[JsonObject, ...] = tuple({"type": "text", "text": str(one.text)} for one in given)
    tools = tuple(cast("JsonObject", convert_to_openai_tool(one)) for one in request.tools)
    return Base(str(model or ""), instructions=system, tools=tools)


def _as_langchain(tool: Tool) -> StructuredTool:
    async def call(**arguments: Any) -> str:
        try:
            answer = await tool.call(arguments)
        except ToolError as error:
            raise ToolException(str(error)) from error
        return answer if isinstance(answer, str) else answer.text

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=cast("dict[str, Any]", tool.input_schema),
        func=lambda **arguments: _awaited(call(**arguments)),
        coroutine=call,
        handle_tool_error=True,
    )
