"""The stable JSON form of `nacre stats`."""

from __future__ import annotations

from nacre.inspect.stats import Stats
from nacre.messages.blocks import JsonObject
from nacre.session.meter import Meter


def stats_json(found: Stats, days: int) -> JsonObject:
    """Return what `nacre stats --json` prints; fields may be added."""
    kept = found.kept
    per_100 = found.compactions_per_100
    return {
        "days": days,
        "since": found.since.isoformat(),
        "sessions": found.sessions,
        **_meter_json(found.meter),
        "unpriced_requests": found.meter.unpriced,
        "compactions": found.compactions,
        "compactions_per_100_requests": None if per_100 is None else round(per_100, 2),
        "beside": [
            {
                "purpose": each.purpose,
                "forks": each.forks,
                **_meter_json(each.meter),
                "cache_shares": {name: round(share, 4) for name, share in each.shares.items()},
            }
            for each in found.asides
        ],
        "memories": {
            "saved": kept.saved.total(),
            "recalled": kept.recalled.total(),
            "forgotten": kept.forgotten.total(),
            "cited": kept.cited,
            "attached_tokens": kept.tokens,
            "undone": len(kept.undone),
            "contradicted": len(kept.contradicted),
            "rejected": len(kept.rejected),
            "shares": {
                name: None if share is None else round(share, 4) for name, share in shares_of(found).items()
            },
        },
        "by_day": [
            {
                "day": each.day.isoformat(),
                **_meter_json(each.meter),
                "compactions": each.compactions,
                "saved": each.saved,
                "recalled": each.recalled,
                "forgotten": each.forgotten,
            }
            for each in found.days
        ],
        "unread_sessions": found.unread,
        "unknown": [*found.unknown],
    }


def _meter_json(meter: Meter) -> JsonObject:
    usage = meter.usage
    return {
        "requests": meter.requests,
        "input_tokens": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output_tokens": usage.output,
        "cost_usd": None if meter.usd is None else round(meter.usd, 6),
        "approximate": usage.approximate,
        "refreshes": meter.refreshes,
        "refresh_cost_usd": round(meter.refresh_usd, 6),
        "hit_rate": round(usage.hit_rate, 4) if usage.prompt else None,
    }


def shares_of(found: Stats) -> dict[str, float | None]:
    """Return the shares of saved and recalled memories of these days."""
    kept = found.kept
    return {
        "undone": kept.share(kept.undone, kept.written),
        "contradicted": kept.share(kept.contradicted, kept.attached),
        "rejected": kept.share(kept.rejected, kept.written),
        "any": kept.share(kept.amiss, kept.written | kept.attached),
    }
