"""`nacre compact`: replace older messages of a session by a summary, or undo that (C23)."""

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
    from nacre.cli.sessions.find import find_session
    from nacre.cli.signals import run_to_end

    wanted = _CompactOptions(**asked)  # type: ignore[arg-type]
    if wanted.start is not None and wanted.end is not None:
        raise click.UsageError("--from and --up-to exclude each other; use only one of them")
    if undo and (wanted.start or wanted.end or wanted.focus or wanted.by_rule):
        raise click.UsageError("--undo cannot be combined with other options")
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
        # The session in memory begins after the compaction; the log has what is in view again.
        looked = read_view(path)
        tokens = session.pressure(looked.view).tokens if looked else None
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


def _check_free(path: Path, settings: Settings) -> None:
    """Raise `SessionBusy` if another process holds the session: a branch would not help here."""
    from nacre.store.session_log import SessionLog

    SessionLog.open(path, home=settings.home).close()


def _tell(ready: OpenedAgent) -> None:
    for notice in ready.agent.session.notices():
        print_error(notice.text)


def _has_no_model(ready: OpenedAgent) -> bool:
    return ready.choice is not None and ready.choice.provider_name == "embedded"
