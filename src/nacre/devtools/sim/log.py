"""The simulator's log: one frozen entry per request, for tests and for `GET /sim/log`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from nacre.devtools.cache_models.anthropic_state import ApiRefusal, Trace
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its outcome."""

    route: str
    at: float
    """Seconds since 1970 on the simulator's clock."""
    body: JsonObject
    status: int = 200
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    refusal: ApiRefusal | None = None
    trace: Trace = field(default_factory=Trace)
    fault: str | None = None
    """The deliberate fault."""
    message_id: str | None = None
    applied_edits: tuple[JsonObject, ...] = ()
    diagnostics: JsonObject | None = None


def render_log(exchanges: list[Exchange], *, bodies: bool) -> JsonObject:
    """Return the log as JSON: the entries, and the sum of their costs."""
    total = sum((line.usage for line in exchanges), Usage())
    lines: list[Json] = [_line(line, bodies=bodies) for line in exchanges]
    return {
        "requests": lines,
        "total": {
            "requests": len(exchanges),
            "usage": asdict(total),
            "hit_rate": round(total.hit_rate, 4),
            "cost_usd": sum(line.cost_usd or 0.0 for line in exchanges),
        },
    }


def _line(line: Exchange, *, bodies: bool) -> JsonObject:
    # Without the body: asdict copies deeply, and bodies are most of the log.
    rendered: JsonObject = {"model": line.body.get("model"), **asdict(replace(line, body={}))}
    return {**rendered, "body": line.body} if bodies else {k: v for k, v in rendered.items() if k != "body"}
