"""`nacre compact`: replace older messages of a session by a summary, or undo that (C23)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, find_session, load_settings
from nacre.cli.output import has_colour, print_error, print_json, printable
from nacre.errors import NothingToCompact, TranscriptError
from nacre.formatting import counted
from nacre.messages.draft import WHOLE, ItemSpan
from nacre.messages.rounds import cuts
from nacre.session.compaction import CompactionRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nacre.messages.blocks import JsonObject
    from nacre.messages.pairing import Item
    from nacre.session.compaction import Compaction
    from nacre.session.session import Session
    from nacre.settings import Settings

NO_MODEL = (
    "no model is configured, so this was done without a model; `nacre doctor` says how to configure one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompactOptions:
    """Options of `nacre compact`."""

    start: str | None
    end: str | None
    focus: str
    by_rule: bool
    as_json: bool


@click.command(short_help="Replace older messages by a summary.")
@click.argument("session", metavar="ID")
@click.option("--from", "start", metavar="M", help="Summarise from message M on; keep what precedes it.")
@click.option("--up-to", "end", metavar="M", help="Summarise what precedes message M; keep the rest.")
@click.option("--focus", metavar="TEXT", default="", help="Focus of the summary.")
@click.option("--by-rule", is_flag=True, help="Use no model.")
@click.option("--undo", is_flag=True, help="Undo the last compaction.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def compact(options: RunOptions, /, session: str, *, undo: bool, **asked: object) -> None:
    """Shorten a session's conversation: a summary replaces its older messages.

    The newest messages, your own words and the task list are kept, and the files read last are read again.
    The log keeps everything: `nacre sessions show ID --full` shows it, --undo restores it. An ID may be
    shortened to its beginning; `latest` is the newest session of this directory. M is a number printed by
    `nacre sessions show ID`, a message's id, or the beginning of one.
    """
    from nacre.cli.signals import run_to_end
    from nacre.store.session_log import SessionLog

    wanted = _CompactOptions(**asked)  # type: ignore[arg-type]
    if wanted.start is not None and wanted.end is not None:
        raise click.UsageError("--from and --up-to exclude each other; use only one of them")
    if undo and (wanted.start or wanted.end or wanted.focus or wanted.by_rule):
        raise click.UsageError("--undo cannot be combined with other options")
    path = find_session(load_settings(options), session)
    settings = _settings_of(path, options)
    # Raises `SessionBusy` if another process holds the session: a branch would not help here.
    SessionLog.open(path, home=settings.home).close()
    run_to_end(
        _undone(path, settings, as_json=wanted.as_json) if undo else _compacted(path, settings, wanted)
    )


async def _compacted(path: Path, settings: Settings, asked: _CompactOptions) -> None:
    from nacre.app.open_agent import open_agent

    async with open_agent(settings, session=path.stem) as ready:
        session = ready.agent.session
        span = span_of(session.view.items, start=asked.start, end=asked.end)
        before = session.meter
        with contextlib.nullcontext() if asked.as_json else print_spent(session):
            try:
                async with progress() as say:
                    wanted = CompactionRequest(
                        focus=asked.focus, span=span, by_rule=asked.by_rule, on_progress=say
                    )
                    done = await ready.compact.compact(wanted)
            finally:
                for notice in session.notices():
                    print_error(notice.text)
            is_embedded = ready.choice is not None and ready.choice.provider_name == "embedded"
            if done.kind == "rules" and not asked.by_rule and is_embedded:
                print_error(NO_MODEL)
            if asked.as_json:
                spent = session.meter.since(before)
                print_json(
                    {**compaction_json(done, path.stem), "requests": spent.requests, "cost_usd": spent.usd}
                )
                return
            undo = f"`nacre compact {path.stem[:8]} --undo` takes this back"
            words = ready.compact.overflow.where.words
            print("\n".join(compaction_lines(done, path.stem, undo=undo, words_file=words)))


async def _undone(path: Path, settings: Settings, *, as_json: bool) -> None:
    from nacre.app.open_agent import open_agent
    from nacre.layers.l4_compact.layer import undo_compaction
    from nacre.session.read_session import read_view

    async with open_agent(settings, session=path.stem) as ready:
        session = ready.agent.session
        record = await undo_compaction(session)
        if record is None:
            raise NothingToCompact(f"session {path.stem[:8]} has no compaction to take back")
        # The session in memory begins after the compaction; the log has what is in view again.
        looked = read_view(path)
        tokens = session.window_state(looked.view).tokens if looked else None
    if as_json:
        print_json({"session": path.stem, "undone": record.id, "tokens": tokens})
        return
    size = f"; the conversation has about {tokens:,} tokens again" if tokens is not None else ""
    print(f"undid the compaction of {record.at.astimezone():%Y-%m-%d %H:%M:%S}{size}")


def _settings_of(path: Path, options: RunOptions) -> Settings:
    """Return settings of the session's own directory, which may be gone: never of the current one (C21)."""
    from nacre.settings import load
    from nacre.store.summaries import summarise

    cwd = summarise(path).cwd
    here = load_settings(options)
    if cwd and Path(cwd) == here.cwd:
        return here
    given = options.as_settings()
    if not cwd or not Path(cwd).is_absolute():
        # A path of another system, or none: resolved here it would be below the current directory.
        given = {**given, "disableAutoMemory": True}
        cwd = f"/{path.parent.name}"
    settings = load(Path(cwd), os.environ, cli=given)
    settings.require_sound()
    return settings


TICK_SECONDS = 1.0
"""Seconds between two updates of the elapsed time."""
SHORT_ID = 8
"""Characters of an id in a command to be typed again."""
WORTH_SAYING = 0.1
"""Seconds below which no duration is shown."""
NAMED_FILES = 5
"""Files named individually; the rest is counted."""
HOW = {
    "full": "with a model's summary",
    "notes": "from the session's notes",
    "rules": "by rule, without a model",
}


def span_of(items: Sequence[Item], *, start: str | None = None, end: str | None = None) -> ItemSpan:
    """Return the part from a message on or up to one, moved so that calls and results stay together."""
    if start is not None:
        first = _safe(items, place_of(items, start))
        return ItemSpan(first=first) if first else WHOLE
    if end is None:
        return WHOLE
    keeps_from = _safe(items, place_of(items, end))
    if keeps_from == 0:
        raise NothingToCompact(f"nothing comes before message {end}; name a later one")
    return ItemSpan(keeps_from=keeps_from)


def place_of(items: Sequence[Item], wanted: str) -> int:
    """Return the index of a message named by its number in `nacre sessions show`, its id or an id prefix.

    A short number is never an id prefix: random ids begin with digits, too.
    """
    if wanted.isdecimal() and 1 <= int(wanted) <= len(items):
        return int(wanted) - 1
    is_prefix = wanted and not (wanted.isdecimal() and len(wanted) < SHORT_ID)
    found = [place for place, item in enumerate(items) if item.record_id == wanted] or [
        place for place, item in enumerate(items) if is_prefix and item.record_id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    several = f"{len(found)} messages have ids that begin with" if found else "no message in view matches"
    raise TranscriptError(
        f"{several} {wanted!r}; `nacre sessions show ID` numbers them from 1 to {len(items)}"
    )


def _safe(items: Sequence[Item], place: int) -> int:
    return max(cut for cut in cuts(items) if cut <= place)


@asynccontextmanager
async def progress() -> AsyncIterator[Callable[[str], None]]:
    """Return a function that shows the current step with its duration, on a terminal only."""
    import asyncio

    if not has_colour(sys.stderr):
        yield lambda _: None
        return
    stage = "compacting"
    ticks = 0

    def show() -> None:
        seconds = f" {ticks * TICK_SECONDS:.0f} s" if ticks else ""
        print(f"\r{printable(stage)}…{seconds}\x1b[K", end="", file=sys.stderr, flush=True)

    def say(new: str) -> None:
        nonlocal stage
        stage = new
        show()

    async def tick() -> None:
        nonlocal ticks
        while True:
            show()
            await asyncio.sleep(TICK_SECONDS)
            ticks += 1

    ticking = asyncio.create_task(tick())
    try:
        yield say
    finally:
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def print_spent(session: Session) -> Iterator[None]:
    """Print at the end what the requests within cost; also of a summary that was stopped: it is paid for."""
    before = session.meter
    try:
        yield
    finally:
        spent = session.meter.since(before)
        if spent.requests:
            requests = counted(spent.requests, "request")
            print(f"spent on it: {spent.price()} ({requests}); session: {session.meter.price()}")


def compaction_lines(done: Compaction, session: str, *, undo: str, words_file: str = "") -> list[str]:
    """Describe the result of a compaction; `undo` is the command that undoes it."""
    share = f" ({done.after / done.before:.0%})" if done.before else ""
    took = f" in {done.seconds:.1f} s" if done.seconds >= WORTH_SAYING else ""
    lines = [f"compacted {HOW[done.kind]}: about {done.before:,} tokens became {done.after:,}{share}{took}"]
    kept = [
        f"{counted(done.kept_before, 'message')} before it" if done.kept_before else "",
        f"{counted(done.kept_messages, 'message')} at the end" if done.kept_messages else "",
    ]
    if any(kept):
        lines.append(f"  kept as it was: {' and '.join(filter(None, kept))}")
    if done.words_kept or done.words_left:
        file = printable(words_file) or "a file"
        more = f"; {done.words_left:,} more in {file}" if done.words_left else ""
        none = f"none here; {counted(done.words_left, 'message')} of yours in {file}"
        kept_words = f"{counted(done.words_kept, 'message')} of yours{more}" if done.words_kept else none
        lines.append(f"  word for word: {kept_words}")
    if done.files:
        names = ", ".join(printable(name) for name in done.files[:NAMED_FILES])
        more = f" and {len(done.files) - NAMED_FILES} more" if len(done.files) > NAMED_FILES else ""
        lines.append(f"  read again from disk: {names}{more}")
    if done.dropped:
        lines.append(f"  removed from the summary: {counted(done.dropped, 'invented quotation')}")
    lines.append(f"Nothing is lost: `nacre sessions show {session[:SHORT_ID]} --full` has it all; {undo}")
    return lines


def compaction_json(done: Compaction, session: str) -> JsonObject:
    return {
        "session": session,
        "record": done.record.id,
        "kind": done.kind,
        "before": done.before,
        "after": done.after,
        "kept_before": done.kept_before,
        "kept_messages": done.kept_messages,
        "words_kept": done.words_kept,
        "words_left": done.words_left,
        "files": list(done.files),
        "dropped": done.dropped,
        "seconds": round(done.seconds, 3),
    }
