"""What the gateway costs and saves: streams beside a bare proxy, and a recorded day of real sessions.

The bare proxy is the one that uvicorn and httpx2 make in twenty lines; it reads nothing of what passes. The
day is played on the simulator's clock: directly, through the gateway, and with each of its features.
"""

from __future__ import annotations

import asyncio
import gzip
import heapq
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import uvicorn

from bench.machine import bar
from nacre.asgi import bound, serve
from nacre.devtools.replay.recorded import read_recorded
from nacre.devtools.replay.schema import Recorded, ReplayStep
from nacre.devtools.sim.clock import SimClock
from nacre.devtools.sim.replies import ScriptedReply
from nacre.devtools.sim.simulator import SimSettings, Simulator
from nacre.integrations.framework_session import Layers
from nacre.integrations.request_shrinker import RequestShrinker
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.records import Said
from nacre.messages.wire import render_blocks
from nacre.server.gateway.keep_warm import CacheRefresher, KeepWarmLimits
from nacre.server.gateway.proxy import Gateway
from nacre.server.gateway.records import read_records
from nacre.server.gateway.report import report
from nacre.server.gateway.run import GatewayOptions, build_gateway
from nacre.server.gateway.upstream import Upstream
from nacre.settings import load

DAYS = Path(__file__).parents[2] / "shared" / "data" / "claude_code_sessions" / "sessions"
"""Beside the repository, never in it."""
MODEL = "claude-opus-4-6"
"""Most sessions of the recording ran on it."""
MARKER: JsonObject = {"cache_control": {"type": "ephemeral"}}
EVENTS = 100
EVENT_SECONDS = 0.01
FIRST_BYTE_LIMIT = 1.5
THROUGHPUT_LIMIT = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    streams: int = 200
    rounds: int = 7
    steps: int | None = None
    """Of the recorded day; None: all."""


FULL = Sizes()
TINY = Sizes(streams=4, rounds=1, steps=6)


def measure(sizes: Sizes = FULL) -> JsonObject:
    speed = asyncio.run(_speed(sizes))
    day: Any = asyncio.run(_day(sizes)) if DAYS.exists() else None
    first, through = speed["first_byte_ratio"], speed["throughput_ratio"]
    bars = [
        bar("time to first byte beside a bare proxy", first, at_most=FIRST_BYTE_LIMIT),
        bar("throughput beside a bare proxy", through, at_least=THROUGHPUT_LIMIT),
    ]
    if day is not None:
        bars += [
            bar("replies that differ from the direct ones", day["replies_that_differ"], at_most=0),
            bar("bodies that differ from the direct ones", day["bodies_that_differ"], at_most=0),
            bar("bill with keep-warm beside the direct one", day["keep_warm_ratio"], at_most=0.99),
            bar("the same with adaptive thinking", day["ways"]["thinking_keep_warm"]["ratio"], at_most=0.99),
            bar("bill with shrink beside the direct one", day["ways"]["shrink"]["ratio"], at_most=1.0),
        ]
    return {"streams": sizes.streams, **speed, "day": day, "bars": [*bars]}


# Streams beside a bare proxy


async def _speed(sizes: Sizes) -> dict[str, Any]:
    ratios: dict[str, list[float]] = defaultdict(list)
    taken: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as home:
        me = [sys.executable, "-m", "bench.gateway"]
        gateway = [sys.executable, "-m", "nacre", "gateway", "--json", "--upstream"]
        async with (
            _process([*me, "upstream"], home) as origin,
            _process([*me, "bare", origin], home) as bare,
            _process([*gateway, origin], home) as ours,
        ):
            places = {"direct": origin, "bare": bare, "gateway": ours}
            for turn in range(-1, sizes.rounds):
                names = list(places)[turn % 3 :] + list(places)[: turn % 3]
                found = {name: await _round(places[name], sizes.streams) for name in names}
                if turn < 0:
                    continue  # the first one opens connections and compiles
                for name, (first, rate) in found.items():
                    taken[name]["first_byte_ms"].append(first * 1000)
                    taken[name]["events_per_second"].append(rate)
                ratios["first"].append(found["gateway"][0] / found["bare"][0])
                ratios["rate"].append(found["gateway"][1] / found["bare"][1])
    return {
        "first_byte_ratio": round(median(ratios["first"]), 3),
        "throughput_ratio": round(median(ratios["rate"]), 3),
        "medians": {
            name: {what: round(median(all_), 1) for what, all_ in one.items()} for name, one in taken.items()
        },
    }


@asynccontextmanager
async def _process(command: list[str], home: str) -> AsyncIterator[str]:
    environ = {**os.environ, "NACRE_HOME": home, "HOME": home}
    started = await asyncio.create_subprocess_exec(*command, env=environ, stdout=asyncio.subprocess.PIPE)
    assert started.stdout is not None
    yield json.loads(await started.stdout.readline())["url"]
    started.kill()
    await started.wait()


async def _round(url: str, streams: int) -> tuple[float, float]:
    """Return the median time to the first event, and events per second of all streams."""
    text = "A sentence of an ordinary conversation. " * 400
    body: JsonObject = {
        "model": "claude-sonnet-5-5", "max_tokens": 99, "stream": True, "system": text,
        "messages": [{"role": "user", "content": "hi"}],
    }  # fmt: skip
    data = json.dumps(body).encode()
    begun = time.perf_counter()
    firsts = await asyncio.gather(*(_stream(url, data) for _ in range(streams)))
    whole = time.perf_counter() - begun
    return median(firsts), streams * EVENTS / whole


async def _stream(url: str, body: bytes) -> float:
    host = url.removeprefix("http://")
    address, port = host.split(":")
    reader, writer = await asyncio.open_connection(address, int(port))
    head = f"POST /v1/messages HTTP/1.1\r\nhost: {host}\r\nx-api-key: k\r\nanthropic-version: 1\r\n"
    begun = time.perf_counter()
    writer.write(head.encode() + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    seen = b""
    while b"event: " not in seen:
        seen += await reader.read(65_536)
    first = time.perf_counter() - begun
    tail = seen
    while part := await reader.read(65_536):
        tail = (tail + part)[-200:]
    writer.close()
    if b"message_stop" not in tail:
        raise RuntimeError(f"a stream of {url} ended early: {tail!r}")
    return first


async def _upstream() -> None:
    """Answer every request with a stream of events at a fixed pace."""
    usage = {"input_tokens": 4_000, "output_tokens": 1}
    start = {"type": "message_start", "message": {"id": "m", "model": "claude-sonnet-5-5", "usage": usage}}
    delta = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "some words "},
    }
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 99}}
    events = [start, *[delta] * (EVENTS - 3), end, {"type": "message_stop"}]
    frames = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    chunks = [b"%x\r\n" % len(frame) + frame + b"\r\n" for frame in frames]

    head_fields = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
                await reader.readexactly(int(fields[b"content-length"]))
                writer.write(b"HTTP/1.1 200 OK\r\n" + head_fields)
                for chunk in chunks:
                    writer.write(chunk)
                    await writer.drain()
                    await asyncio.sleep(EVENT_SECONDS)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                if fields.get(b"connection") == b"close":
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1_024)
    print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}), flush=True)
    await server.serve_forever()


async def _bare(origin: str) -> None:
    """Pass on what comes, in the shortest way."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    transport = httpx2.AsyncHTTPTransport(
        limits=limits
    )  # as the gateway; a client would cost time of its own

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        headers = [(k, v) for k, v in scope["headers"] if k not in {b"host", b"connection"}]
        request = httpx2.Request(scope["method"], origin + scope["path"], headers=headers, content=body)
        reply = await transport.handle_async_request(request)
        head = [(k, v) for k, v in reply.headers.raw if k.lower() != b"transfer-encoding"]
        await send({"type": "http.response.start", "status": reply.status_code, "headers": head})
        stream = reply.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        async for part in stream:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await reply.aclose()
        await send({"type": "http.response.body", "body": b""})

    listening = bound("127.0.0.1", 0)
    print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
    config = uvicorn.Config(app, http="h11", ws="none", lifespan="off", log_config=None, access_log=False)
    await uvicorn.Server(config).serve(sockets=[listening])


# A recorded day


@dataclass(slots=True)
class _Player:
    """Plays the client of one recorded session."""

    session: Recorded
    thinking: JsonObject | None = None
    messages: list[Json] = field(default_factory=list)
    cut_off: set[str] = field(default_factory=set)
    """Tool calls of replies that were cut off: the recording continues without their results."""

    def request(self, step: ReplayStep) -> bytes:
        """Return the body as Claude Code sends it: markers at the system prompt and the last message."""
        for said in step.heard:
            self._add(said)
        if self.messages and not step.heard:
            self._end_cut_off_calls()
        system = {"type": "text", "text": "x" * 4 * self.session.base_tokens, **MARKER}
        *before, last = self.messages
        assert isinstance(last, dict)
        content = last["content"]
        assert isinstance(content, list)
        marked: Json = {**last, "content": [*content[:-1], {**content[-1], **MARKER}]}  # type: ignore[dict-item]
        body: JsonObject = {
            "model": MODEL,
            "max_tokens": 32_000,
            "system": [system, {"type": "text", "text": self.session.name}],
            "tools": [{"name": name, "input_schema": {"type": "object"}} for name in ("Read", "Bash")],
            "messages": [*before, marked],
        }
        return json.dumps({**body, **({"thinking": self.thinking} if self.thinking else {})}).encode()

    def reply(self, step: ReplayStep) -> ScriptedReply:
        self._add(step.reply)
        last = self.messages[-1]
        assert isinstance(last, dict)
        blocks = last["content"]
        assert isinstance(blocks, list)
        return ScriptedReply(content=tuple(blocks), output_tokens=step.output_tokens)  # type: ignore[arg-type]

    def _end_cut_off_calls(self) -> None:
        """Give the calls of a reply that was cut off a result: providers refuse calls without one."""
        last = self.messages[-1]
        assert isinstance(last, dict)
        content = last["content"]
        assert isinstance(content, list)
        calls = [str(one["id"]) for one in content if isinstance(one, dict) and one["type"] == "tool_use"]
        if calls:
            self.cut_off.update(calls)
            results: list[Json] = [
                {"type": "tool_result", "tool_use_id": one, "content": "[interrupted]"} for one in calls
            ]
            self.messages.append({"role": "user", "content": results})

    def _add(self, said: Said) -> None:
        blocks = [one for one in render_blocks(said.blocks) if self._is_kept(one)] or [
            {"type": "text", "text": "(nothing)"}
        ]
        last = self.messages[-1] if self.messages else None
        if isinstance(last, dict) and last["role"] == said.role and said.role == "user":
            assert isinstance(last["content"], list)
            last["content"] += blocks
        else:
            self.messages.append({"role": said.role, "content": [*blocks]})

    def _is_kept(self, block: Json) -> bool:
        """Thinking was not recorded whole, and its signatures are gone."""
        if not isinstance(block, dict) or "thinking" in str(block.get("type")):
            return False
        if str(block.get("tool_use_id")) in self.cut_off:
            return False  # a result that came after the reply had been continued
        return block.get("type") != "text" or bool(str(block.get("text")).strip())


class _Day:
    """The steps of all sessions of a day in the order of their times, and the clock of both sides."""

    def __init__(self, sessions: Iterable[Recorded], most: int | None) -> None:
        self.sessions = list(sessions)
        steps = [(step.at, number, step) for number, one in enumerate(self.sessions) for step in one.steps]
        self.steps = sorted(steps, key=lambda one: one[:2])[:most]
        self.clock = SimClock(self.steps[0][0], manual=True)
        self._due: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()
        self.gateway: Gateway | None = None
        self.refresher: CacheRefresher | None = None

    async def sleep(self, seconds: float) -> None:
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._due, (self.clock.seconds() + seconds, next(self._order), due))
        await due

    async def until(self, moment: float) -> None:
        """Move the clock there, and stop where something falls due."""
        while self._due and self._due[0][0] <= moment:
            when, _, due = heapq.heappop(self._due)
            if not due.done():  # the session had a request meanwhile
                self.clock.set(max(when, self.clock.seconds()))
                due.set_result(None)
                await self.settled()
        self.clock.set(max(moment, self.clock.seconds()))

    async def settled(self) -> None:
        """Wait until all is recorded, and each session that is kept warm waits for its next refresh."""
        while self.gateway is not None and self.gateway.held_bytes:
            await asyncio.sleep(0.0005)
        while self.refresher is not None and self.refresher.waiting > self._sleeping():
            await asyncio.sleep(0.0005)

    def _sleeping(self) -> int:
        return sum(not due.done() for _, _, due in self._due)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One way to play the day."""

    through: bool = True
    keep_warm: bool = False
    memory: bool = False
    shrink: bool = False
    window: int | None = None
    """Window to shrink to; None: the model's own, which no session of the day fills."""
    thinking: JsonObject | None = None


HALF_WINDOW = 100_000
ADAPTIVE: JsonObject = {"type": "adaptive"}
"""A fixed budget needs the thinking of earlier replies, which was not recorded; it is never refreshed."""
WAYS = {
    "direct": _Way(through=False),
    "gateway": _Way(),
    "keep_warm": _Way(keep_warm=True),
    "memory": _Way(memory=True),
    "shrink": _Way(shrink=True),
    "shrink_to_half": _Way(shrink=True, window=HALF_WINDOW),
    "all": _Way(keep_warm=True, memory=True, shrink=True),
    "thinking_direct": _Way(through=False, thinking=ADAPTIVE),
    "thinking_keep_warm": _Way(keep_warm=True, thinking=ADAPTIVE),
    "thinking_all": _Way(keep_warm=True, memory=True, shrink=True, thinking=ADAPTIVE),
}
UNCHANGED = ("direct", "gateway", "keep_warm")
"""Ways in which the provider gets the client's bytes."""


async def _day(sizes: Sizes) -> JsonObject:
    sessions = _busiest_day()
    played = {name: await _played(sessions, sizes, way) for name, way in WAYS.items()}
    ways: JsonObject = {}
    for name, one in played.items():
        beside = played["thinking_direct" if name.startswith("thinking") else "direct"]
        ways[name] = {
            "usd": round(one.usd, 4),
            "ratio": round(one.usd / beside.usd, 4),
            "reported_usd": round(one.reported, 4),
            "pauses_usd": round(one.pauses_usd, 4),
            "refreshes": one.refreshes,
            "refreshes_usd": round(one.refreshes_usd, 4),
            "not_refreshed_because": one.no_refresh,
            "recalled": one.recalled,
            "remembered": one.remembered,
            "shrunk_bytes": one.shrunk_bytes,
            "problems": one.problems,
            "refused": sum(not reply.startswith("200") for reply in one.replies),
            "replies_that_differ": sum(
                ours != theirs and theirs.startswith("200")
                for ours, theirs in zip(one.replies, beside.replies, strict=True)
            ),
        }
    unchanged = [played[name].bodies for name in UNCHANGED]
    return {
        "sessions": len(sessions),
        "requests": len(played["direct"].replies),
        "model": MODEL,
        "ways": ways,
        "keep_warm_ratio": ways["keep_warm"]["ratio"],  # type: ignore[index,call-overload]
        "replies_that_differ": sum(one["replies_that_differ"] for one in ways.values()),  # type: ignore[index,call-overload,misc]
        "bodies_that_differ": sum(len({*three}) > 1 for three in zip(*unchanged, strict=True)),
    }


def _busiest_day() -> list[Recorded]:
    """Return the sessions of the day on which most of them began."""
    days: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(DAYS.glob("*.jsonl.gz")):
        with gzip.open(path) as file:
            days[str(json.loads(file.readline()).get("t"))[:10]].append(path)
    return [one for path in max(days.values(), key=len) for one in read_recorded(path)]


@dataclass(slots=True)
class _Played:
    usd: float = 0.0
    replies: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    """Digests of what the provider received."""
    refreshes: int = 0
    refreshes_usd: float = 0.0
    pauses_usd: float = 0.0
    reported: float = 0.0
    no_refresh: str = ""
    recalled: int = 0
    remembered: int = 0
    shrunk_bytes: int = 0
    problems: int = 0


async def _played(sessions: list[Recorded], sizes: Sizes, way: _Way) -> _Played:
    day = _Day(sessions, sizes.steps)
    players = [_Player(one, way.thinking) for one in sessions]
    next_reply: list[ScriptedReply] = []

    async def source(_: JsonObject) -> ScriptedReply:
        return next_reply[-1]

    done = _Played()
    settings = SimSettings(real_clock=False)
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as home:
        async with Simulator([], clock=day.clock, source=source, settings=settings) as sim:
            options = GatewayOptions(
                home=Path(home),
                upstream=Upstream(sim.url),
                keep_warm=KeepWarmLimits(day_usd=1_000) if way.keep_warm else None,
                memory=load(Path(home), {"NACRE_HOME": home, "HOME": home}) if way.memory else None,
                shrinker=RequestShrinker(Path(home) / "results", Layers(window=way.window))
                if way.shrink
                else None,
                clock=day.clock,
                sleep=day.sleep,
            )
            async with (
                _serving(options, day, None if way.through else sim.url) as url,
                httpx2.AsyncClient(base_url=url, timeout=60) as client,
            ):
                for at, number, step in day.steps:
                    await day.until(at.timestamp())
                    body = players[number].request(step)
                    next_reply.append(players[number].reply(step))
                    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
                    reply = await client.post("/v1/messages", content=body, headers=headers)
                    await day.settled()
                    said = reply.json()
                    done.replies.append(f"{reply.status_code} {json.dumps(said.get('content'))}")
                    done.bodies.append(sha256(json.dumps(sim.log[-1].body).encode()).hexdigest())
                    done.usd += sim.log[-1].cost_usd or 0.0
            found = report(read_records(Path(home)))
    done.refreshes = sum(one.refreshes for one in found)
    done.refreshes_usd = sum(one.refreshes_usd for one in found)
    done.usd += done.refreshes_usd
    done.pauses_usd = sum(one.pauses_usd for one in found)
    done.no_refresh = next((one.no_refresh for one in found if one.no_refresh), "")
    done.recalled = sum(one.recalled for one in found)
    done.remembered = sum(one.remembered for one in found)
    done.shrunk_bytes = sum(one.shrunk_bytes for one in found)
    done.problems = sum(sum(one.problems.values()) for one in found)
    done.reported = sum(one.cost_usd for one in found)
    return done


@asynccontextmanager
async def _serving(options: GatewayOptions, day: _Day, direct: str | None) -> AsyncIterator[str]:
    if direct is not None:
        yield direct
        return
    listening = bound("127.0.0.1", 0)
    port = listening.getsockname()[1]
    built = build_gateway(options, port)
    day.gateway, day.refresher = built.app, built.observer.refresher
    task = asyncio.create_task(serve(built.app, listening, limit=built.limit, date_header=False))
    yield f"http://127.0.0.1:{port}"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    listening.close()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["upstream"]:
            asyncio.run(_upstream())
        case ["bare", origin]:
            asyncio.run(_bare(origin))
        case _:
            print(json.dumps(measure(TINY if "--tiny" in sys.argv else FULL), indent=2))
