"""`nacre compact`: let a summary stand for a session's messages, or take that back (C23)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import print_error, print_json

if TYPE_CHECKING:
    from nacre.app.open_agent import OpenedAgent
    from nacre.settings import Settings

NO_MODEL = "no model is set up, so this was done by rule; `nacre doctor` says how to name one"


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompactOptions:
    """What the command line says."""

    start: str | None
    end: str | None
    focus: str
    by_rule: bool
    as_json: bool


@click.command(short_help="Let a summary stand for a session's messages.")
@click.argument("session", metavar="ID")
@click.option(
    "--from", "start", metavar="M", help="Summarise message M and what follows; keep what is before."
)
@click.option(
    "--up-to", "end", metavar="M", help="Summarise what comes before message M; keep it and the rest."
)
@click.option("--focus", metavar="TEXT", default="", help="What the summary should dwell on.")
@click.option("--by-rule", is_flag=True, help="Ask no model.")
@click.option("--undo", is_flag=True, help="Take the last compaction back.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def compact(options: RunOptions, /, session: str, *, undo: bool, **asked: object) -> None:
    """Make a session's conversation shorter: a summary stands for its older messages.

    The newest messages, your own words and the task list are kept, and the files read last are read again.
    The log keeps everything: `nacre sessions show ID --full` shows it, --undo goes back to it. An ID may be
    shortened to its beginning; `latest` is the newest session of this directory. M is a number as
    `nacre sessions show ID` prints it behind a name, a message's id, or the beginning of one.
    """
    from nacre.cli.sessions.find import find_session
    from nacre.cli.signals import run_to_end

    wanted = _CompactOptions(**asked)  # type: ignore[arg-type]
    if wanted.start is not None and wanted.end is not None:
        raise click.UsageError("--from and --up-to exclude each other; leave one of them out")
    if undo and (wanted.start or wanted.end or wanted.focus or wanted.by_rule):
        raise click.UsageError("--undo goes alone; leave the other options out")
    path = find_session(load_settings(options), session)
    settings = _settings_of(path, options)
    _check_free(path, settings)
    run_to_end(
        _undone(path, settings, as_json=wanted.as_json) if undo else _compacted(path, settings, wanted)
    )


async def _compacted(path: Path, settings: Settings, asked: _CompactOptions) -> None:
    from nacre.app.open_agent import open_agent
    from nacre.cli.sessions.compact_output import compaction_json, compaction_lines, progress, span_of
    from nacre.session.compaction import CompactionRequest

    async with open_agent(settings, session=path.stem) as ready:
        span = span_of(ready.agent.session.view.items, start=asked.start, end=asked.end)
        try:
            async with progress() as say:
                done = await ready.compact.compact(
                    CompactionRequest(focus=asked.focus, span=span, by_rule=asked.by_rule, on_progress=say)
                )
        finally:
            _tell(ready)
        if done.kind == "rules" and not asked.by_rule and _has_no_model(ready):
            print_error(NO_MODEL)
        if asked.as_json:
            print_json(compaction_json(done, path.stem))
            return
        undo = f"`nacre compact {path.stem[:8]} --undo` takes this back"
        words = ready.compact.overflow.where.words
        print("\n".join(compaction_lines(done, path.stem, undo=undo, words_file=words)))


async def _undone(path: Path, settings: Settings, *, as_json: bool) -> None:
    from nacre.app.open_agent import open_agent
    from nacre.errors import NothingToCompact
    from nacre.layers.l4_compact.layer import undo_compaction
    from nacre.session.read_session import read_view

    async with open_agent(settings, session=path.stem) as ready:
        session = ready.agent.session
        record = await undo_compaction(session)
        if record is None:
            raise NothingToCompact(f"session {path.stem[:8]} has no compaction to take back")
        # What the session held in memory began behind the compaction; the log has what is in view again.
        looked = read_view(path)
        tokens = session.pressure(looked.view).tokens if looked else None
    if as_json:
        print_json({"session": path.stem, "undone": record.id, "tokens": tokens})
        return
    size = f"; the conversation has about {tokens:,} tokens again" if tokens is not None else ""
    print(f"took back the compaction of {record.at.astimezone():%Y-%m-%d %H:%M:%S}{size}")


def _settings_of(path: Path, options: RunOptions) -> Settings:
    """As in the session's own directory, which may be gone: never with what this one has in memory (C21)."""
    from nacre.settings import load
    from nacre.store.summaries import summarise

    cwd = summarise(path).cwd
    here = load_settings(options)
    if cwd and Path(cwd) == here.cwd:
        return here
    given = options.as_settings()
    if not cwd or not Path(cwd).is_absolute():
        # A folder of another system, or none: read as a path it would lead to somewhere below this one.
        given = {**given, "disableAutoMemory": True}
        cwd = f"/{path.parent.name}"
    settings = load(Path(cwd), os.environ, cli=given)
    settings.require_sound()
    return settings


def _check_free(path: Path, settings: Settings) -> None:
    """Raises `SessionBusy` where another process holds it: to go on as a branch would help nobody here."""
    from nacre.store.session_log import SessionLog

    SessionLog.open(path, home=settings.home).close()


def _tell(ready: OpenedAgent) -> None:
    for notice in ready.agent.session.notices():
        print_error(notice.text)


def _has_no_model(ready: OpenedAgent) -> bool:
    return ready.choice is not None and ready.choice.provider_name == "embedded"
