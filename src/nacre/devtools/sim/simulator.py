"""The simulator: a loopback server with a script, a clock, a cache and a log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType

from nacre.cache.models import SHIPPED_TABLE
from nacre.devtools.cache_models.anthropic_render import Count
from nacre.devtools.cache_models.anthropic_state import AnthropicSwitches, ApiRefusal
from nacre.devtools.sim.clock import SimClock
from nacre.devtools.sim.exchange import CacheRules, Exchange, SimulatorState, render_log
from nacre.devtools.sim.http import (
    HttpLimits,
    HttpRequest,
    HttpResponse,
    LoopbackServer,
    json_response,
    parse_json,
)
from nacre.devtools.sim.replies import (
    ReplySource,
    Script,
    ScriptedReply,
    exhausted,
    parse_script,
    parse_whole_script,
    read_script,
)
from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """Settings of `nacre sim`."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes any free port."""
    script: Path | None = None
    replies: tuple[ScriptedReply, ...] = ()
    """Sent before the script: a recorded session, through `replies_from_messages`."""
    source: ReplySource = exhausted
    """Used when script and replies have run out; `replies_from_provider` for the embedded engine."""
    real_clock: bool = True
    """Cache lifetimes follow the wall clock; otherwise only `POST /sim/clock` moves time."""
    rules: CacheRules = field(default_factory=CacheRules)
    limits: HttpLimits = field(default_factory=HttpLimits)


async def serve(settings: SimSettings, *, ready: Callable[[str], None]) -> None:
    """Run until cancelled; `ready` is called with the address once requests are accepted."""
    script = read_script(settings.script) if settings.script else Script()
    script = replace(script, replies=[*settings.replies, *script.replies])
    clock = SimClock(real=settings.real_clock)
    async with Simulator(script, clock=clock, settings=settings) as sim:
        ready(sim.url)
        await asyncio.Event().wait()


class Simulator:
    """A provider on loopback: `async with Simulator(script=["Hello."]) as sim: … sim.url …`."""

    def __init__(
        self,
        script: Script | Sequence[ScriptedReply | Json] = (),
        *,
        clock: SimClock | None = None,
        switches: AnthropicSwitches | None = None,
        tokens: Count | None = None,
        source: ReplySource | None = None,
        settings: SimSettings | None = None,
    ) -> None:
        chosen = settings or SimSettings()
        self.clock = clock or SimClock()
        rules = chosen.rules
        rules = replace(rules, anthropic=switches or rules.anthropic, tokens=tokens or rules.tokens)
        self._state = SimulatorState(self.clock, rules=rules, source=source or chosen.source)
        self.extend(script)
        self._host = chosen.host
        self._server = LoopbackServer(self._answer, host=chosen.host, port=chosen.port, limits=chosen.limits)
        self._port: int | None = None

    async def __aenter__(self) -> Simulator:
        self._port = await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.close()

    @property
    def url(self) -> str:
        """Base URL for Anthropic's SDK; OpenAI's needs `/v1` appended."""
        if self._port is None:
            raise ConfigError("the simulator is not running: use it in `async with`")
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def log(self) -> list[Exchange]:
        """Every request so far, oldest first."""
        return list(self._state.log)

    def extend(self, script: Script | Sequence[ScriptedReply | Json]) -> None:
        """Append replies to those that are left."""
        added = script if isinstance(script, Script) else Script(parse_script(script))
        self._state.script.extend(added.replies)
        if added.background is not None:
            self._state.background = deque([*(self._state.background or ()), *added.background])

    def reset(self) -> None:
        """Clear script, cache and log; the clock keeps its time."""
        self._state.reset()

    async def arrivals(self, count: int) -> None:
        """Wait until at least so many requests are in the log."""
        await self._state.arrivals(count)

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        match (request.method, request.path):
            case ("POST", "/v1/messages"):
                return await self._state.complete(request, self._state.messages_api)
            case ("POST", "/v1/messages/count_tokens"):
                return self._state.count_tokens(request)
            case ("POST", "/v1/chat/completions"):
                return await self._state.complete(request, self._state.chat_api)
            case ("POST", "/v1/responses"):
                return await self._state.complete(request, self._state.responses_api)
            case ("GET" | "HEAD", "/v1/models"):
                return json_response(200, _models(request))
            case ("GET" | "HEAD", "/sim/log"):
                return json_response(200, render_log(self.log, bodies=request.query.get("bodies") == "1"))
            case ("POST", "/sim/clock" | "/sim/script" | "/sim/reset"):
                return self._control(request)
            case _:
                return self._unknown(request)

    def _control(self, request: HttpRequest) -> HttpResponse:
        """Handle one of the simulator's control endpoints."""
        try:
            order = parse_json(request.body) if request.body else None
            match (request.path, order):
                case ("/sim/script", _):
                    self.extend(parse_whole_script(order))
                case ("/sim/reset", _):
                    self.reset()
                case (_, {"advance": int() | float() as seconds}):
                    self.clock.advance(seconds)
                case (_, {"set": int() | float() as seconds}):
                    self.clock.set(seconds)
                case (_, {"set": str(moment)}):
                    self.clock.set(datetime.fromisoformat(moment).timestamp())
                case _:
                    advice = 'say {"advance": seconds} or {"set": seconds since 1970 or an ISO date}'
                    raise ConfigError(advice)  # noqa: TRY301  answered below like any other bad order
        except (ValueError, ConfigError) as error:
            refusal = ApiRefusal(400, "invalid_request_error", str(error))
            return json_response(400, self._state.messages_api.error(refusal))
        left = len(self._state.script)
        return json_response(200, {"now": self.clock.seconds(), "replies_left": left})

    def _unknown(self, request: HttpRequest) -> HttpResponse:
        refusal = ApiRefusal(404, "not_found_error", f"no such route: {request.method} {request.path}")
        openai = request.path.startswith("/v1/") and "anthropic-version" not in request.headers
        dialect = self._state.chat_api if openai else self._state.messages_api
        return json_response(404, dialect.error(refusal))


def _models(request: HttpRequest) -> JsonObject:
    """Return the models of the table, in the format of the calling client's provider."""
    profiles = [SHIPPED_TABLE.profile(name) for name in sorted(SHIPPED_TABLE.models)]
    if "anthropic-version" not in request.headers:
        chat: list[Json] = [
            {"id": row.model, "object": "model", "created": 0, "owned_by": row.provider}
            for row in profiles
            if row.provider == "openai"
        ]
        return {"object": "list", "data": chat}
    ids = [row.model for row in profiles if row.provider == "anthropic"]
    models: list[Json] = [
        {
            "type": "model",
            "id": row.model,
            "display_name": row.model,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": row.window,
            "max_tokens": row.max_output,
        }
        for row in profiles
        if row.provider == "anthropic"
    ]
    return {"data": models, "has_more": False, "first_id": ids[0], "last_id": ids[-1]}
