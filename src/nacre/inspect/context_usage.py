"""Context usage: tokens of the next request by kind of content, and the limits of the window (C34)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nacre.agents.team import AGENT, AGENT_TYPES
from nacre.app.build_toolset import mark_rare, own_tools, with_deferred
from nacre.app.open_agent import build_base, session_settings
from nacre.app.restored_context import RESTORED_OPENING
from nacre.app.startup_context import preview_startup_context
from nacre.cache.models import Thresholds, profile
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.context.environment import ENVIRONMENT
from nacre.context.plan import PLAN
from nacre.context.recalled import RECALLED
from nacre.context.skill_list import SKILLS
from nacre.errors import TranscriptError
from nacre.inspect.savings import Savings, booked, savings
from nacre.layers.l4_compact.install import MARK, STANDING
from nacre.layers.l7_mail.layer import MAIL
from nacre.memory.startup_text import AGAIN_BEGINS, memory_part
from nacre.messages.blocks import Text, Thinking, ToolCall, ToolResult
from nacre.messages.pairing import Item, ItemPart
from nacre.messages.records import Compacted, Noted, Record, Replaced, Said, Undone
from nacre.messages.tokens import Calibration, estimate_blocks, estimate_json, estimate_text
from nacre.messages.tool_references import is_deferred
from nacre.messages.view import View
from nacre.providers.choose import choose
from nacre.session.layer import DAY, INSIDE, INSTRUCTIONS, RECORD, digest
from nacre.session.layer_decisions import kept_out
from nacre.session.log_writer import SessionLogWriter
from nacre.session.meter import Meter
from nacre.session.read_session import read_view
from nacre.session.session import OPENING, Session
from nacre.session.spending import FILE, read_shared
from nacre.settings import Settings
from nacre.tools.tasks import TaskBoard
from nacre.tools.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Context usage of a session's next request."""

    session: str | None
    model: str
    thresholds: Thresholds
    used: int
    parts: Mapping[str, int]
    """Tokens by kind of content; their sum is `used`."""
    is_counted: bool
    """True if the figure rests on the provider's own count; otherwise all of it is an estimate."""
    out_of_view: Mapping[str, int]
    """Tokens that pointers replace and that are not in the window: offloaded or cleared."""
    meter: Meter
    teammates: Meter | None
    """What teammates in their own processes spent; None if there were none."""
    layers: Savings
    """What each layer did, spent and saved (an estimate)."""
    compactions: int
    calibration: Calibration
    deferred_tools: int = 0
    """Tools whose definitions are not in the prompt until ToolSearch loads them (P12)."""
    deferred_tokens: int = 0
    """The estimated size of their definitions."""
    booked: Sequence[Record] = ()
    """The records that the cost is read from."""

    @property
    def free(self) -> int:
        return max(0, self.thresholds.window - self.used)


async def contents(settings: Settings, path: Path | None, *, clock: Clock = SYSTEM_CLOCK) -> Contents:
    """Return the context usage of a stored or a new session without opening it or sending a request."""
    looked = read_view(path) if path is not None else None
    if path is not None and looked is None:
        raise TranscriptError(
            f"session {path.stem} is too large to be resumed, so it fills no window; "
            f"`nacre sessions show {path.stem}` shows it"
        )
    records = looked.loaded.records if looked else []
    known = await preview_startup_context(settings, clock=clock)
    # Tools of MCP servers are left out: to list them, the servers would have to be started.
    tools = [*own_tools(settings, Workspace(settings.cwd), TaskBoard()), *mark_rare(known.tools)]
    model = _model(settings, records)
    base = build_base(model, known, with_deferred(tools, model, settings), settings, clock)
    session = Session(base, records, settings=session_settings(settings), clock=clock)
    booking = booked(path) if path else []
    found = contents_of(session, booking)
    meter = Meter.of(booking)
    teammates = teammates_of(path) if path else None
    return replace(found, session=path.stem if path else None, meter=meter, teammates=teammates)


def contents_of(session: Session, booking: Sequence[Record] | None = None) -> Contents:
    """Return the context usage of an open session; `booking` adds records from before its last compaction."""
    view = session.view
    records = session.transcript.records
    booking = records if booking is None else booking
    calibration = calibrated(records)
    ahead = opening_parts(session.base.opening) if not view.items else {}
    estimated = {
        "system": sum(estimate_text(str(block["text"])) for block in session.base.system),
        "tools": sum(estimate_json(one) for one in session.base.tools if not is_deferred(one)),
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
        teammates=None,
        layers=savings(booking, ratio=calibration.ratio),
        compactions=view.epochs.count("compact"),
        calibration=calibration,
        deferred_tools=len(session.base.deferred),
        deferred_tokens=sum(map(estimate_json, session.base.deferred)),
        booked=booking,
    )


def contents_now(session: Session) -> Contents:
    """Return the context usage with the whole past: a resumed session holds only what follows its last
    compaction."""
    writer = session.writer
    if not isinstance(writer, SessionLogWriter) or not writer.path.exists():
        return contents_of(session)
    return replace(contents_of(session, booked(writer.path)), teammates=teammates_of(writer.path))


def teammates_of(path: Path) -> Meter | None:
    """Return what the teammates of a session spent in their own processes, given the session's log."""
    shared = read_shared(path.with_suffix("") / FILE)
    found = shared.without(path.stem) if shared else Meter()
    return found if found.requests else None


def _model(settings: Settings, records: Iterable[Record]) -> str:
    """Return the requested model, else the one that answered last, else the configured one."""
    if settings.model:
        return settings.model
    said = [record.reply.model for record in records if isinstance(record, Said) and record.reply]
    known = [model for model in said if model and profile(model).known]
    return known[-1] if known else choose(None, settings.environ).model


def _adding_up_to(used: int, estimated: dict[str, int]) -> dict[str, int]:
    """Fit the estimated parts to a known sum.

    What the provider counted in addition is not in the log: system prompt and tools of the program that sent
    the request. If the estimate is higher than the count, the parts are cut in proportion.
    """
    total = sum(estimated.values())
    if total <= used:
        return {**estimated, "unattributed": used - total}
    shares = {name: tokens * used // total for name, tokens in estimated.items()}
    largest = max(shares, key=lambda name: shares[name])
    shares[largest] += used - sum(shares.values())
    return shares


def calibrated(records: Iterable[Record]) -> Calibration:
    """Return the factor between estimated and counted tokens, from neighbouring requests with the same
    prefix."""
    calibration = Calibration()
    since = 0
    last_reply = ""
    before = 0
    for record in records:
        match record:
            case Replaced() | Compacted() | Undone():
                since = 0
                before = 0
            case Said(aside=None):
                usage = record.reply.usage if record.reply else None
                if record.reply and record.reply.id and record.reply.id != last_reply and usage:
                    if before:
                        calibration = calibration.after(estimated=since, real=usage.prompt - before)
                    since = 0
                    last_reply = record.reply.id
                    before = usage.prompt
                since += estimate_blocks(record.blocks)
            case _:
                pass
    return calibration


KINDS = (
    "instructions",
    "memory",
    "notes",
    "surroundings",
    "skills",
    "plan",
    "agents",
    "mail",
    "summary",
    "user_text",
    "assistant_text",
    "thinking",
    "tool_calls",
    "tool_results",
    "offloaded",
    "cleared",
    "other",
)
"""Display order; `notes` are the session notes once they replace messages."""
ATTACHMENTS = {
    INSTRUCTIONS: "instructions",
    RECALLED: "memory",
    DAY: "surroundings",
    SKILLS: "skills",
    PLAN: "plan",
    AGENT: "agents",
    MAIL: "mail",
    AGENT_TYPES: "agents",
}
"""Kind of content by kind of attachment note."""
_OFFLOADED = ("offload", "duplicate", "reread")
_HEADING = "## "
"""How the sections beside a summary begin: what the user said, what was done, names."""
_SURROUNDINGS = ENVIRONMENT.partition("{{")[0]
"""How the environment section begins."""


def parts(view: View) -> dict[str, int]:
    """Estimate the tokens in view by kind; a pointer counts with its own size."""
    filing = _Filing.of(view)
    found = dict.fromkeys(KINDS, 0)
    for item in view.items:
        for part in item.parts:
            for kind, tokens in _filed(item, part, filing):
                found[kind] += tokens
    return found


def opening_parts(text: str) -> dict[str, int]:
    """Estimate the tokens ahead of the conversation: instructions, memory, environment."""
    start = text.rfind(_SURROUNDINGS)
    context, around = (text[:start], text[start:]) if start >= 0 else (text, "")
    memory = estimate_text(memory_part(context))
    return {
        "instructions": max(0, estimate_text(context) - memory),
        "memory": memory,
        "surroundings": estimate_text(around),
    }


def out_of_view(view: View) -> dict[str, int]:
    """Estimate the tokens on disk that the pointers in view replace, by cause."""
    standing = {
        part.block.call_id for item in view.items for part in item.parts if isinstance(part.block, ToolResult)
    }
    cleared = {call for call, why in view.replaced.items() if why == "clear"}
    offloads = [note for kind in _OFFLOADED for note in view.noted(kind)]
    clears = [note for note in view.noted("clear") if not standing.isdisjoint(_calls(note) & cleared)]
    return {
        "offloaded": sum(kept_out(note) for note in offloads if note.fact("call") in standing - cleared),
        "cleared": sum(kept_out(note) for note in clears),
    }


@dataclass(frozen=True, slots=True)
class _Filing:
    """What the notes of a view say about its content."""

    attached: Mapping[str, str]
    """Kinds by record id."""
    inside: Mapping[str, str]
    """Kinds by digest of attachments inside a tool result."""
    openings: frozenset[str]
    summaries: Mapping[str, str]
    """Origin of each summary in view, by record id."""
    results: Mapping[str, str]
    """Kinds of shortened results, by call id."""

    @staticmethod
    def of(view: View) -> _Filing:
        notes = [(kind, note) for name, kind in ATTACHMENTS.items() for note in view.noted(name)]
        # A note without text for the model refers to the user's own message.
        ours = {one.id for one in view.records if isinstance(one, Said) and one.meta}
        offloaded = {str(note.fact("call")) for kind in _OFFLOADED for note in view.noted(kind)}
        cleared = {call for call, why in view.replaced.items() if why == "clear"}
        return _Filing(
            attached={str(note.fact(RECORD)): kind for kind, note in notes if note.fact(RECORD) in ours},
            inside={str(note.fact(INSIDE)): kind for kind, note in notes if note.fact(INSIDE)},
            openings=frozenset(str(note.fact("record")) for note in view.noted(OPENING)),
            summaries={
                one.summary_id or one.id: one.kind for one in view.records if isinstance(one, Compacted)
            },
            results=dict.fromkeys(offloaded, "offloaded") | dict.fromkeys(cleared, "cleared"),
        )


@dataclass(frozen=True, slots=True)
class BlockKinds:
    """The kind of content of each block in a view, one kind for each."""

    _filing: _Filing
    attachments = frozenset({*ATTACHMENTS.values(), OPENING})

    @staticmethod
    def of(view: View) -> BlockKinds:
        return BlockKinds(_Filing.of(view))

    def of_part(self, item: Item, part: ItemPart) -> str:
        """Return its kind; `restored` for what a compaction brought back beside its summary."""
        if isinstance(part.block, Text) and _is_restored(item, part.block.text, self._filing):
            return "restored"
        kinds = [kind for kind, tokens in _filed(item, part, self._filing) if tokens]
        return OPENING if len(kinds) > 1 and isinstance(part.block, Text) else kinds[-1] if kinds else "other"

    def has_attachment_inside(self, part: ItemPart) -> bool:
        """Return whether an attachment was put inside a tool result."""
        return isinstance(part.block, ToolResult) and bool(_inside(part.block, self._filing.inside))


def _is_restored(item: Item, text: str, filing: _Filing) -> bool:
    """Whether a text of a summary of ours is neither the summary nor the facts beside it."""
    if item.record_id not in filing.summaries or not any(
        isinstance(one.block, Text) and one.block.text.startswith(STANDING) for one in item.parts
    ):
        return False
    return not text.startswith((STANDING, _HEADING)) and text != MARK.text


def _filed(item: Item, part: ItemPart, filing: _Filing) -> Iterator[tuple[str, int]]:
    """Add the tokens of one part to its kinds; some parts hold more than one kind."""
    match part.block:
        case Text(text) if _is_opening(item, text, filing):
            yield from opening_parts(text).items()
        case Text(text):
            yield _words(item, text, filing), part.tokens
        case Thinking():
            yield "thinking", part.tokens
        case ToolCall():
            yield "tool_calls", part.tokens
        case ToolResult() as result:
            riders = _inside(result, filing.inside) if filing.inside else Counter[str]()
            yield from riders.items()
            yield filing.results.get(result.call_id, "tool_results"), part.tokens - riders.total()
        case _:
            yield "other", part.tokens


def _is_opening(item: Item, text: str, filing: _Filing) -> bool:
    """Whether a text stands ahead of the conversation; a summary contains it among other things (C21)."""
    if item.record_id in filing.summaries:
        return text.startswith(RESTORED_OPENING)
    return item.record_id in filing.openings


def _words(item: Item, text: str, filing: _Filing) -> str:
    if item.record_id in filing.summaries:
        is_notes = filing.summaries[item.record_id] == "notes" and text.startswith(STANDING)
        return "instructions" if text.startswith(AGAIN_BEGINS) else "notes" if is_notes else "summary"
    usual = "assistant_text" if item.role == "assistant" else "user_text"
    return filing.attached.get(item.record_id, usual)


def _inside(result: ToolResult, kinds: Mapping[str, str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in result.content:
        kind = kinds.get(digest(one.text)) if isinstance(one, Text) else None
        if kind is not None and isinstance(one, Text):
            found[kind] += estimate_text(one.text)
    return found


def _calls(note: Noted) -> set[str]:
    calls = note.fact("calls")
    return {str(call) for call in calls} if isinstance(calls, list) else set()
