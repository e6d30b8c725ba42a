"""Sums up the records of the gateway by session (G2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from nacre.messages.blocks import Json, JsonObject
from nacre.messages.usage import Usage

PAUSE = "pause"
UNKNOWN = "unknown"


@dataclass(slots=True)
class SessionReport:
    """What one session of a client cost, and why."""

    session: str
    client: str = ""
    model: str = ""
    started: str = ""
    last: str = ""
    requests: int = 0
    failed: int = 0
    """Requests that the provider refused or that broke off."""
    without_usage: int = 0
    unpriced: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Of all requests and refreshes."""
    pauses_usd: float = 0.0
    refreshes: int = 0
    refreshes_usd: float = 0.0
    saved_usd: float = 0.0
    no_refresh: str = ""
    recalled: int = 0
    """Memories that were attached."""
    remembered: int = 0
    """Memories that were extracted."""
    shrunk_bytes: int = 0
    """What the requests were smaller than the client's."""
    problems: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    """Cost of lost prefixes by the block that changed, in millionths of a dollar."""

    def add(self, record: JsonObject) -> None:
        self.client = str(record.get("client") or self.client)
        self.model = str(record.get("model") or self.model)
        at = str(record.get("at") or "")
        self.started = self.started or at
        self.last = max(self.last, at)
        if record.get("kind") == "no_refresh":
            self.no_refresh = str(record.get("reason") or "")
            return
        if record.get("kind") == "saved":
            self.remembered += round(_number(record.get("memories")))
            return
        usage, price = record.get("usage"), _number(record.get("cost_usd"))
        self.cost_usd += price
        self.unpriced += usage is not None and record.get("cost_usd") is None
        if record.get("kind") == "refresh":
            self.refreshes += 1
            self.refreshes_usd += price
            return
        self.requests += 1
        self.failed += record.get("status") != 200 or record.get("ending") != "complete"
        self.without_usage += record.get("status") == 200 and usage is None
        self.usage += Usage.of_json(usage)
        self.saved_usd += _number(record.get("saved_usd"))
        self.recalled += round(_number(record.get("recalled")))
        self.shrunk_bytes += round(_number(record.get("shrunk_bytes")))
        if problem := record.get("problem"):
            self.problems[str(problem)] += 1
        lost = record.get("lost")
        if isinstance(lost, dict):
            if lost.get("cause") == PAUSE:
                self.pauses_usd += _number(lost.get("usd"))
            else:
                self.broken[str(lost.get("cause"))] += round(_number(lost.get("usd")) * 1_000_000)

    def as_json(self) -> JsonObject:
        """Return the figures of the report; unknown causes have no block to name."""
        blocks = [(cause, usd) for cause, usd in self.broken.most_common() if cause != UNKNOWN]
        return {
            "session": self.session,
            "client": self.client,
            "model": self.model,
            "started": self.started,
            "last": self.last,
            "requests": self.requests,
            "failed": self.failed,
            "without_usage": self.without_usage,
            "unpriced": self.unpriced,
            "cost_usd": self.cost_usd,
            "cache_hit_rate": round(self.usage.hit_rate, 4),
            "pauses_usd": self.pauses_usd,
            "broken_usd": sum(self.broken.values()) / 1_000_000,
            "broken_by": blocks[0][0] if blocks else None,
            "refreshes": self.refreshes,
            "refreshes_usd": self.refreshes_usd,
            "saved_usd": self.saved_usd,
            "no_refresh": self.no_refresh or None,
            "recalled": self.recalled,
            "remembered": self.remembered,
            "shrunk_bytes": self.shrunk_bytes,
            "problems": dict(self.problems),
        }


def report(records: Iterable[JsonObject]) -> list[SessionReport]:
    """Return the sessions, the one that was used last first."""
    sessions: dict[str, SessionReport] = {}
    for record in records:
        name = str(record.get("session"))
        sessions.setdefault(name, SessionReport(name)).add(record)
    return sorted(sessions.values(), key=lambda one: one.last, reverse=True)


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
