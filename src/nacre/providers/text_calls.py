"""Tool calls that a model writes as text: JSON or XML in place of a native call (P11).

Only a reply that is nothing but calls of tools that were sent counts, and only for a model that failed the
test of native calls: others may quote JSON as an example. The guard judges such calls like any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

from nacre import prompts
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ProviderError
from nacre.messages.blocks import Json, JsonObject, Message, ToolCall
from nacre.messages.events import ProviderEvent, Reply, StartedOver, TextDelta, ToolCallEvent
from nacre.providers.base import Capabilities, Provider, Request, ToolSupport, complete

PROBE = prompts.load(__package__, "probe")
PROBE_TOKENS = 200
"""Enough for a call with short arguments."""
PROBE_TOOL: JsonObject = {
    "name": "report_number",
    "description": "Reports a number to the user.",
    "input_schema": {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    },
}
_FRAME = re.compile(
    r"\s+|[,;]|```[ \t]*\w*|</?(?:tool_calls?|tools?|function_calls?|functioncall)>"
    r"|\[/?TOOL_CALLS\]|<\|[\w.]+\|>"
)
"""What may stand around calls."""
_XML = re.compile(
    r"<(?:function=(?P<name>[\w.-]+)|invoke name=\"(?P<invoked>[\w.-]+)\")>"
    r"(?P<body>.*?)</(?:function|invoke)>",
    re.DOTALL,
)
_PARAMETER = re.compile(
    r"<parameter(?:=(?P<name>[\w.-]+)| name=\"(?P<named>[\w.-]+)\")>(?P<value>.*?)</parameter>", re.DOTALL
)
_MAY_BEGIN = re.compile(r"\s*(?:[\[{]|```|<[a-z|/]|\Z)")
"""How a reply begins that may be a call."""


def parse_text_calls(text: str, tools: Sequence[JsonObject]) -> list[tuple[str, JsonObject]]:
    """Return the calls that a text consists of; none if it holds anything else."""
    known = {str(one["name"]): one for one in tools if "name" in one}
    calls: list[tuple[str, JsonObject]] = []
    place = 0
    while place < len(text):
        if frame := _FRAME.match(text, place):
            place = frame.end()
        elif xml := _XML.match(text, place):
            name = xml["name"] or xml["invoked"]
            if name not in known:
                return []
            calls.append((name, _xml_arguments(xml["body"], known[name])))
            place = xml.end()
        elif text[place] in "[{":
            try:
                value, place = json.JSONDecoder().raw_decode(text, place)
            except (ValueError, RecursionError):
                return []
            found = list(_json_calls(value))
            if not found or any(name not in known for name, _ in found):
                return []
            calls += found
        else:
            return []
    return calls


def _json_calls(value: Json) -> Iterator[tuple[str, JsonObject]]:
    """Yield the calls in a JSON value; one that is no call yields an unknown name."""
    if isinstance(value, list):
        for one in value:
            yield from _json_calls(one)
        return
    said = value if isinstance(value, dict) else {}
    inner = said.get("function")
    said = inner if isinstance(inner, dict) else said
    arguments = next((said[key] for key in ("arguments", "parameters", "input") if key in said), None)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = None
    yield (
        str(said.get("name", "")) if isinstance(arguments, dict) else "",
        (arguments if isinstance(arguments, dict) else {}),
    )


def _xml_arguments(body: str, tool: JsonObject) -> JsonObject:
    schema = tool.get("input_schema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    kinds = properties if isinstance(properties, dict) else {}
    arguments: JsonObject = {}
    for found in _PARAMETER.finditer(body):
        name = found["name"] or found["named"]
        value = found["value"].strip("\n")
        kind = kinds.get(name)
        arguments[name] = value
        if isinstance(kind, dict) and kind.get("type") != "string":
            # A value that is not JSON stays as it is, and the tool says what is wrong with it.
            with suppress(ValueError, RecursionError):
                arguments[name] = json.loads(value)
    return arguments


async def probe(
    provider: Provider, request: Request, on_reply: Callable[[Reply], None] | None = None
) -> ToolSupport:
    """Ask a model to call a tool of this request, and return how it does; raises what the provider raises."""
    name = str(request.tools[-1]["name"])
    asked: JsonObject = {
        "role": "user",
        "content": [{"type": "text", "text": prompts.render(PROBE, tool=name)}],
    }
    test = replace(request, messages=[*request.messages, asked], max_tokens=PROBE_TOKENS)
    reply = await complete(provider, test)
    if on_reply is not None:
        on_reply(reply)
    if reply.message.tool_calls:
        return "native"
    return "text" if parse_text_calls(reply.message.text, request.tools) else "none"


def probe_request(model: str) -> Request:
    """Return a request for the test of a model without a conversation."""
    return Request(model=model, messages=[], tools=[PROBE_TOOL])


class TextCallsProvider:
    """Turns calls that a model writes as text into tool calls, once it is known not to call natively.

    A reply of an untested model that looks like a call is followed by one request that tests it.
    """

    def __init__(
        self,
        inner: Provider,
        support: ToolSupport | None,
        *,
        on_learnt: Callable[[ToolSupport], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.inner = inner
        self.support = support
        self.on_test: Callable[[Reply], None] | None = None
        """Called with the reply to the request that tests the model, which is paid for."""
        self._on_learnt = on_learnt
        self._clock = clock

    @property
    def name(self) -> str:
        return self.inner.name

    def capabilities(self, model: str) -> Capabilities:
        return self.inner.capabilities(model)

    async def count_tokens(self, request: Request) -> int | None:
        return await self.inner.count_tokens(request)

    async def close(self) -> None:
        await self.inner.close()

    def learn(self, support: ToolSupport) -> None:
        """Keep how the model calls tools."""
        self.support = support
        if self._on_learnt is not None:
            self._on_learnt(support)

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        """Yield the events of the reply; text that may be a call is held back until that is certain."""
        may_be_call = bool(request.tools) and self.support != "native"
        held = ""
        async with aclosing(self.inner.stream(request)) as events:
            async for event in events:
                match event:
                    case TextDelta(text) if may_be_call:
                        held += text
                        if not _MAY_BEGIN.match(held):
                            may_be_call = False
                            yield TextDelta(held)
                            held = ""
                    case StartedOver():
                        may_be_call = bool(request.tools) and self.support != "native"
                        held = ""
                        yield event
                    case Reply():
                        async for last in self._finish(event, held, request):
                            yield last
                    case _:
                        yield event

    async def _finish(self, reply: Reply, held: str, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        if reply.message.tool_calls and self.support is None:
            self.learn("native")
        calls = [] if reply.message.tool_calls or not held else parse_text_calls(held, request.tools)
        if calls and self.support is None:
            await self._test(reply, request)
        if calls and self.support == "none":
            self.learn("text")
        if calls and self.support == "text":
            made = tuple(ToolCall(f"call_{self._clock.new_id()}", name, given) for name, given in calls)
            for call in made:
                yield ToolCallEvent(call)
            yield replace(reply, message=Message("assistant", made), stop_reason="tool_use")
            return
        if held:
            yield TextDelta(held)
        yield reply

    async def _test(self, reply: Reply, request: Request) -> None:
        """Test a model whose reply looks like a call; only a native call proves that it quoted one."""
        said: JsonObject = {"role": "assistant", "content": [{"type": "text", "text": reply.message.text}]}
        try:
            test = replace(request, messages=[*request.messages, said])
            found = await probe(self.inner, test, self.on_test)
        except ProviderError:
            return
        self.learn("native" if found == "native" else "text")
