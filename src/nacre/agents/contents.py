"""What fills the window: the next request of a session by kind of content, and where the limits are (C34)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nacre.agents.fit import breakdown
from nacre.agents.hands import own_tools
from nacre.agents.looking import look, spent
from nacre.agents.meter import Meter
from nacre.agents.opening import SYSTEM, session_settings
from nacre.agents.session import Base, Session
from nacre.agents.workplace import environment
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
    meter: Meter
    compactions: int
    calibration: Calibration

    @property
    def free(self) -> int:
        return max(0, self.thresholds.window - self.used)


def contents(settings: Settings, path: Path | None, *, clock: Clock = SYSTEM_CLOCK) -> Contents:
    """What fills the window of this session, or of a new one; nothing is opened, asked or changed."""
    looked = look(path) if path is not None else None
    if path is not None and looked is None:
        raise TranscriptError(
            f"session {path.stem} is too large to be resumed, so it fills no window; "
            f"`nacre sessions show {path.stem}` shows it"
        )
    records = looked.loaded.records if looked else []
    # Tools of MCP servers are not among them: to know those, the servers would have to be started.
    tools = own_tools(settings, Workspace(settings.cwd), TaskBoard())
    base = Base.of(_model(settings, records), SYSTEM, tools)
    session = Session(base, records, settings=session_settings(settings), clock=clock)
    view = session.view
    calibration = calibrated(records)
    estimated = {
        "system": sum(estimate_text(str(block["text"])) for block in base.system),
        "tools": sum(estimate_json(definition) for definition in base.tools),
        **{name.replace(" ", "_"): calibration.apply(tokens) for name, tokens in breakdown(view).items()},
    }
    if not view.items:
        estimated["user_text"] += estimate_text(environment(settings.cwd, clock.now().astimezone()))
    used = session.tokens if view.items else sum(estimated.values())
    return Contents(
        session=path.stem if path else None,
        model=base.model,
        thresholds=session.thresholds,
        used=used,
        parts=_adding_up_to(used, estimated),
        is_counted=view.anchor is not None,
        meter=spent(path) if path else Meter(),
        compactions=view.epochs.count("compact"),
        calibration=calibration,
    )


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
