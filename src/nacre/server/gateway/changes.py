"""What the gateway changes in a request, on request: attached memories, a shrunk history (G4, G5).

A change that fails costs no request: what the client sent passes instead, and the record names the problem.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Protocol

from nacre.errors import NacreError
from nacre.messages.blocks import JsonObject
from nacre.messages.usage import Usage
from nacre.server.gateway.memory import ClientTurn, GatewayMemory, MemoryOutcome
from nacre.server.gateway.proxy import ClientRequest
from nacre.server.gateway.upstream import Api

_LOG = logging.getLogger("nacre.gateway")

PROBLEM_CHARS = 200


class ShrunkHistory(Protocol):
    """A request whose history layers have seen."""

    @property
    def body(self) -> JsonObject | None:
        """None if nothing changed."""
        ...

    def answered(self, usage: Usage) -> None:
        """Take the size of the request as the provider counted it."""
        ...


class Shrinker(Protocol):
    """Follows the histories of clients with a session each."""

    async def shrink(self, api: Api, body: JsonObject) -> ShrunkHistory | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRequest:
    """A request after all changes."""

    body: JsonObject | None = None
    """None: the client's bytes are sent on."""
    data: bytes | None = None
    """The body as it is sent."""
    memory: MemoryOutcome | None = None
    shrunk: ShrunkHistory | None = None
    problem: str = ""

    def answered(self, turn: ClientTurn, usage: Usage | None, memory: GatewayMemory | None) -> None:
        if self.shrunk is not None and usage is not None:
            self.shrunk.answered(usage)
        if self.memory is not None and memory is not None:
            memory.answered(self.memory, turn)

    def facts(self, before: int) -> JsonObject:
        """Return what the record of the request says about it; `before` is the size of the client's body."""
        facts: JsonObject = {}
        if self.memory is not None and self.memory.recalled:
            facts["recalled"] = self.memory.recalled
        if self.shrunk is not None and self.shrunk.body is not None and self.data is not None:
            facts["shrunk_bytes"] = max(0, before - len(self.data))
        return facts | ({"problem": self.problem[:PROBLEM_CHARS]} if self.problem else {})


class RequestChanges:
    """Applies the changes in their order: memories belong to the history that is shrunk."""

    def __init__(self, *, memory: GatewayMemory | None = None, shrinker: Shrinker | None = None) -> None:
        self.memory = memory
        self._shrinker = shrinker

    async def apply(self, call: ClientRequest, body: JsonObject) -> ChangedRequest:
        """Return the changed request; never raises for what a client sent."""
        problems: list[str] = []
        outcome: MemoryOutcome | None = None
        shrunk: ShrunkHistory | None = None
        now: JsonObject | None = None
        if self.memory is not None:
            try:
                outcome = await self.memory.attach(call.api, body, call.project)
                now = outcome.body if outcome is not None else None
                if outcome is not None and outcome.problem is not None:
                    problems.append(_problem("memory", outcome.problem))
            except Exception as error:  # noqa: BLE001  whatever it holds, the request passes
                problems.append(_problem("memory", error))
        if self._shrinker is not None:
            try:
                shrunk = await self._shrinker.shrink(call.api, body if now is None else now)
                now = shrunk.body if shrunk is not None and shrunk.body is not None else now
            except Exception as error:  # noqa: BLE001  as above
                problems.append(_problem("shrink", error))
        data: bytes | None = None
        if now is not None:
            try:
                data = await asyncio.to_thread(_encoded, now)
            except ValueError as error:  # a number that JSON does not have
                problems.append(_problem("changed request", error))
                now = None
        return ChangedRequest(body=now, data=data, memory=outcome, shrunk=shrunk, problem="; ".join(problems))

    async def close(self) -> None:
        if self.memory is not None:
            await self.memory.close()


def _encoded(body: JsonObject) -> bytes:
    """Return the body in the form that most clients write; escapes keep lone surrogates."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()


def _problem(what: str, error: Exception) -> str:
    """Return and log why a change was left out; other errors than nacre's may quote what was said."""
    reason = str(error) if isinstance(error, NacreError) else type(error).__name__
    _LOG.warning("%s: left out of a request: %s", what, reason)
    return f"{what}: {reason}"
