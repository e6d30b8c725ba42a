"""What fills the window: the next request of a session by kind of content, and where the limits are (C34)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.agents.hands import own_tools
from nacre.agents.kept import LogKeeper
from nacre.agents.knowing import foresee
from nacre.agents.looking import look
from nacre.agents.meter import Meter
from nacre.agents.opening import base_of, session_settings
from nacre.agents.parts import opening_parts, out_of_view, parts
from nacre.agents.savings import Savings, booked, savings
from nacre.agents.session import Session
from nacre.cache.rules import profile
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import TranscriptError
from nacre.loop.limits import Thresholds
from nacre.messages.records import Compacted, Record, Replaced, Said, Undone
from nacre.messages.tokens import Calibration, estimate_blocks, estimate_json, estimate_text
from nacre.providers.choose import choose
from nacre.settings import Settings
from nacre.tools.tasks import TaskBoard
from nacre.tools.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The window of a session, as its next request would find it."""

    session: str | None
    model: str
    thresholds: Thresholds
    used: int
    parts: Mapping[str, int]
    """Tokens by kind of content; together they are `used`."""
    is_counted: bool
    """The figure rests on the provider's own count; otherwise all of it is estimated."""
    out_of_view: Mapping[str, int]
    """Tokens that pointers stand for and that are therefore not in the window: offloaded, cleared."""
    meter: Meter
    layers: Savings
    """What each layer did, spent and about saved."""
    compactions: int
    calibration: Calibration

    @property
    def free(self) -> int:
        return max(0, self.thresholds.window - self.used)


async def contents(settings: Settings, path: Path | None, *, clock: Clock = SYSTEM_CLOCK) -> Contents:
    """What fills the window of this session, or of a new one; nothing is opened, asked or changed."""
    looked = look(path) if path is not None else None
    if path is not None and looked is None:
        raise TranscriptError(
            f"session {path.stem} is too large to be resumed, so it fills no window; "
            f"`nacre sessions show {path.stem}` shows it"
        )
    records = looked.loaded.records if looked else []
    known = await foresee(settings, clock=clock)
    # Tools of MCP servers are not among them: to know those, the servers would have to be started.
    tools = [*own_tools(settings, Workspace(settings.cwd), TaskBoard()), *known.tools]
    base = base_of(_model(settings, records), known, tools, settings, clock)
    session = Session(base, records, settings=session_settings(settings), clock=clock)
    booking = booked(path) if path else []
    found = contents_of(session, booking)
    return replace(found, session=path.stem if path else None, meter=Meter.of(booking))


def contents_of(session: Session, booking: Sequence[Record] | None = None) -> Contents:
    """What fills the window of an open session; `booking` is more of its past than it holds itself."""
    view, records = session.view, session.transcript.records
    calibration = calibrated(records)
    ahead = opening_parts(session.base.opening) if not view.items else {}
    estimated = {
        "system": sum(estimate_text(str(block["text"])) for block in session.base.system),
        "tools": sum(estimate_json(definition) for definition in session.base.tools),
        **{name: calibration.apply(tokens) for name, tokens in parts(view).items()},
        **ahead,
    }
    used = session.tokens if view.items else sum(estimated.values())
    return Contents(
        session=session.id,
        model=session.base.model,
        thresholds=session.thresholds,
        used=used,
        parts=_adding_up_to(used, estimated),
        is_counted=view.anchor is not None,
        out_of_view={name: calibration.apply(tokens) for name, tokens in out_of_view(view).items()},
        meter=session.meter,
        layers=savings(records if booking is None else booking, ratio=calibration.ratio),
        compactions=view.epochs.count("compact"),
        calibration=calibration,
    )


def contents_now(session: Session) -> Contents:
    """The same with all of its past: one that was resumed holds only what came after its last compaction."""
    keeper = session.keeper
    past = booked(keeper.path) if isinstance(keeper, LogKeeper) and keeper.path.exists() else None
    return contents_of(session, past)


def _model(settings: Settings, records: Iterable[Record]) -> str:
    """The one that was asked for, else the one that answered last, else what would answer."""
    if settings.model:
        return settings.model
    said = [record.reply.model for record in records if isinstance(record, Said) and record.reply]
    known = [model for model in said if model and profile(model).known]
    return known[-1] if known else choose(None, settings.environ).model


def _adding_up_to(used: int, estimated: dict[str, int]) -> dict[str, int]:
    """The parts of a known sum.

    What the provider counted beyond them is in no log: the system prompt and tools of the program that asked.
    Where the estimate says more than the provider, its parts are cut in proportion.
    """
    total = sum(estimated.values())
    if total <= used:
        return {**estimated, "unattributed": used - total}
    shares = {name: tokens * used // total for name, tokens in estimated.items()}
    largest = max(shares, key=lambda name: shares[name])
    shares[largest] += used - sum(shares.values())
    return shares


def calibrated(records: Iterable[Record]) -> Calibration:
    """How far estimates were off between neighbouring requests, where what stands before them is the same."""
    calibration, since, last_reply, before = Calibration(), 0, "", 0
    for record in records:
        match record:
            case Replaced() | Compacted() | Undone():
                since, before = 0, 0
            case Said(aside=None):
                usage = record.reply.usage if record.reply else None
                if record.reply and record.reply.id and record.reply.id != last_reply and usage:
                    if before:
                        calibration = calibration.after(estimated=since, real=usage.prompt - before)
                    since, last_reply, before = 0, record.reply.id, usage.prompt
                since += estimate_blocks(record.blocks)
            case _:
                pass
    return calibration
