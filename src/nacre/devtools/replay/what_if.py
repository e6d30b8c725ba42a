"""What the logs of a person would have cost with other settings (P7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nacre.devtools.replay.other_policies import SUMMARY_TOKENS
from nacre.devtools.replay.policies import ByLayers, Ladder
from nacre.devtools.replay.run import Progress, ReplayTerms, replay, totals
from nacre.devtools.replay.schema import PolicyTotals, Recorded
from nacre.devtools.replay.side_work import SideWorkSettings
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l2_microcompact.policy import MicrocompactSettings
from nacre.settings import Settings

NOW = "your settings"
"""Name of the row that everything is compared with."""


def what_if(
    sessions: Sequence[Recorded],
    settings: Settings,
    terms: ReplayTerms,
    *,
    progress: Progress | None = None,
) -> dict[str, PolicyTotals]:
    """Return the totals with the person's settings, then those with one of them changed, by its new value."""
    return totals(replay(sessions, [*variants(settings)], terms, progress=progress))


def variants(settings: Settings) -> Iterator[Ladder]:
    """Yield the settings as a policy, and one policy for each change that makes a difference."""
    now = as_policy(settings)
    yield now
    for change in (*_switched(now), *_other_values(now)):
        if replace(change.policy, name=NOW) != now:
            yield replace(change.policy, name=change.name)


def as_policy(settings: Settings) -> Ladder:
    """Return what a chat with these settings does about its size and cost."""
    switches = settings.switches
    compacts = switches.compact
    has_notes = switches.notes and (compacts or settings.notes.always)
    notes = replace(settings.notes, least_room=settings.compaction.summary_room) if has_notes else None
    extracts = switches.extract is not False and settings.extract.mode != "off" and settings.memory.is_on
    extract = settings.extract if extracts else None
    layers = ByLayers(settings=settings.compaction, summary_tokens=SUMMARY_TOKENS)
    return Ladder(
        name=NOW,
        lifetime=settings.cache_ttl,
        offload=settings.offload if switches.offload else None,
        clearing=settings.microcompact if switches.clear_idle else None,
        compaction=layers if compacts else None,
        compact_percent=settings.autocompact.pct,
        warming=settings.keep_warm if switches.keep_warm is not False else None,
        side_work=SideWorkSettings(
            notes=notes,
            extract=extract,
            small_model=settings.small_model or "vendor",
            idle_seconds=settings.background.idle_seconds,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """A setting with another value."""

    name: str
    policy: Ladder


def _switched(now: Ladder) -> Iterator[_Change]:
    work = now.side_work or SideWorkSettings(notes=None, extract=None)
    yield _Change("switches.offload off", replace(now, offload=None))
    yield _Change("switches.clear_idle off", replace(now, clearing=None))
    yield _Change("switches.keep_warm off", replace(now, warming=None))
    yield _Change("switches.notes off", replace(now, side_work=replace(work, notes=None)))
    yield _Change("extract.mode off", replace(now, side_work=replace(work, extract=None)))
    yield _Change("background.idleSeconds 0", replace(now, side_work=replace(work, idle_seconds=0.0)))


def _other_values(now: Ladder) -> Iterator[_Change]:
    yield _Change("cacheTtl 1h", replace(now, lifetime="1h"))
    yield _Change("cacheTtl 5m", replace(now, lifetime="5m"))
    for chars in (4_000, OffloadSettings().max_chars, 50_000):
        if now.offload is not None:
            changed = replace(now.offload, max_chars=chars)
            yield _Change(f"offload.maxChars {chars}", replace(now, offload=changed))
    for keep in (5, MicrocompactSettings().keep):
        if now.clearing is not None:
            cleared = replace(now.clearing, keep=keep)
            yield _Change(f"microcompact.keep {keep}", replace(now, clearing=cleared))
    for percent in (60.0, 80.0):
        if now.compaction is not None:
            yield _Change(f"autocompact.pct {percent:g}", replace(now, compact_percent=percent))
    for tail in (10_000, 40_000):
        if isinstance(now.compaction, ByLayers):
            longer = replace(now.compaction.settings, tail_tokens=tail)
            yield _Change(
                f"compaction.tailTokens {tail}",
                replace(now, compaction=replace(now.compaction, settings=longer)),
            )
