"""`nacre memory forget`: remove a memory so that it can be restored, or erase it for good (M14b)."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import SCOPES, by_hand, json_option, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import is_terminal, print_error, print_json, printable, progress_line
from nacre.errors import StoreError
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.daily_log import LogLine
    from nacre.memory.memory import Memory
    from nacre.memory.purge.home import HomePurges, QuotedPlace
    from nacre.memory.purge.memory import Erased, PurgeTarget
    from nacre.settings import Settings

REASON = "forgotten by hand"
REMOTE = "memory.teamRemote"
SHARED = "`nacre memory sync` removes it for all members; the shared history keeps it"
OLDER = "a copy from before memory had a home of its own, with a history"
SIMILAR = 3
"""Files proposed for a name that no memory has."""
SHOWN = 20
"""Places listed individually; `--json` has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOptions:
    """How a memory is to be forgotten."""

    scope: str
    as_json: bool
    yes: bool
    dry_run: bool
    own_words: bool
    foreign: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """What a purge found and did."""

    past: PurgeTarget
    found: tuple[QuotedPlace, ...]
    left: tuple[QuotedPlace, ...]
    erased: Erased | None = None
    """None if nothing was erased yet."""
    files: int = 0
    """Files searched again afterwards."""


@click.command(short_help="Remove a memory.")
@click.argument("name")
@click.option("--purge", is_flag=True, help="Erase it from history and sessions too; this cannot be undone.")
@click.option("--dry-run", is_flag=True, help="With --purge: only list where it is.")
@click.option("--own-words", is_flag=True, help="With --purge: also where you typed the same words yourself.")
@click.option("--foreign", is_flag=True, help="With --purge: also in logs that another program wrote.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@scope_option
@json_option
@click.pass_obj
def forget(options: RunOptions, /, name: str, *, purge: bool, **given: str | bool) -> int:
    """Remove a memory and its line in the index; the history keeps it unless --purge.

    A purge erases its words from the history, from every session's log and from the files beside the logs,
    then searches everything again and says for what. Exit code 1 if something is left, with the reason. The
    same command completes a purge that was interrupted.
    """
    wanted = ForgetOptions(**given)  # type: ignore[arg-type]
    if not purge and (wanted.dry_run or wanted.own_words or wanted.foreign):
        raise click.UsageError("--dry-run, --own-words and --foreign require --purge")
    if purge:
        return _purged(options, name, wanted)
    from nacre.memory.daily_log import forget_candidate

    opened = run(writable(options, wanted.scope))
    entry, commit = run(forget_candidate(opened, name, by_hand(REASON)))
    if wanted.as_json:
        print_json({"file": entry.file, "commit": commit})
    else:
        print(printable(f"forgot {entry.file}: {entry.description or entry.title}"))
        where = "" if wanted.scope == "project" else f" --scope {wanted.scope}"
        print(printable(f"`nacre memory undo {commit[:10]}{where}` brings it back."))
    return 0


def _purged(options: RunOptions, name: str, wanted: ForgetOptions) -> int:
    """Sessions first, then the memory itself: its words are known only while it exists.

    A journal lets the same command complete a purge that is killed before its report is printed.
    """
    from nacre.memory.purge.memory import end_journal, write_journal

    if not (wanted.yes or wanted.dry_run or is_terminal(sys.stdin)):
        raise click.UsageError("--purge cannot be undone; add --yes to run it without a terminal")
    opened = run((read_only if wanted.dry_run else writable)(options, wanted.scope))
    others = [run(read_only(options, scope)) for scope in SCOPES if scope != wanted.scope]
    target = run(_exact(opened, name))
    past, sweep = _plan(options, opened, others, target, wanted)
    with progress_line("looking through all sessions") as progress:
        found = sweep.look(progress)
    purge = Purge(past=past, found=tuple(found), left=tuple(spot for spot in found if spot.why))
    if wanted.dry_run:
        return _reported(purge, as_json=wanted.as_json)
    if busy := next((spot for spot in found if spot.is_busy), None):
        raise StoreError(
            f"nothing was erased: {busy.why.partition(';')[0]} and quotes it; close it there first"
        )
    if not wanted.yes:
        for spot in purge.left[:SHOWN]:
            print_error(f"this would stay: {_place(spot)}: {spot.why}")
        if not click.confirm(f"Erase {printable(past.file)} for good?", err=True):
            print_error("nothing was erased")
            return 1
    journal = write_journal(opened, past)
    purge = _erased(opened, others, target, purge, sweep)
    try:
        return _reported(purge, as_json=wanted.as_json)
    finally:
        end_journal(journal)


def _erased(
    opened: Memory, others: list[Memory], target: PurgeTarget | LogLine | str, purge: Purge, sweep: HomePurges
) -> Purge:
    """Erase what was found, and search again."""
    from nacre.memory.purge.memory import PurgeTarget, erase, erase_forms, erase_line

    past = purge.past
    failed = sweep.clean(spot for spot in purge.found if not spot.why)
    if failed:
        why = f"{_place(failed[0])}: {failed[0].why}"
        raise StoreError(f"not everything could be erased, so the memory is still there: {why}")
    change = by_hand(REASON)
    if isinstance(target, str):
        erased = run(erase(opened, target, change, others=others, past=past))
    elif isinstance(target, PurgeTarget):
        erased = run(erase_forms(opened, past))
    else:
        erased = run(erase_line(opened, target, change, past=past))
    left = tuple(sweep.remaining())
    return replace(purge, erased=erased, left=left, files=sweep.count_files())


def _plan(
    options: RunOptions,
    opened: Memory,
    others: list[Memory],
    target: PurgeTarget | LogLine | str,
    wanted: ForgetOptions,
) -> tuple[PurgeTarget, HomePurges]:
    from nacre.memory.format.index import INDEX_FILE
    from nacre.memory.instructions.load import is_claude_home
    from nacre.memory.purge.home import HomePurges, PurgeOptions, QuotedPlace
    from nacre.memory.purge.memory import (
        PurgeTarget,
        other_memories,
        project_words,
        purge_target,
        purge_target_of_line,
        said_beside,
        say_the_same,
    )

    settings = load_settings(options)
    homes = dict.fromkeys((settings.home.resolve(), opened.location.base))
    older = _older_copy(settings, opened, target, wanted) if isinstance(target, str) else None
    # A copy of this very memory does not protect its words.
    copied = {older, older.with_name(INDEX_FILE)} if older else set()
    beside = {
        path: text
        for home in homes
        for path, text in other_memories(home, without=[opened, *others]).items()
        if path not in copied
    }
    if isinstance(target, str):
        past = purge_target(opened, target, others=others, beside=beside)
    elif isinstance(target, PurgeTarget):
        same, known = say_the_same({**beside, **dict(said_beside(opened, ""))}, target.file, target.texts)
        past = replace(target, shared=same, others=known)
    else:
        past = purge_target_of_line(opened, target, beside=beside)
    past = replace(past, common=project_words(past, settings.project_root, without=homes))
    if wanted.scope == "team" and settings.memory.team_remote:
        remote = QuotedPlace(path=Path(REMOTE), why=SHARED)
        past = replace(past, shared=(*past.shared, remote))
    if older:
        command = f"NACRE_MEMORY_HOME={quote(str(settings.home))} nacre memory forget {past.file} --purge"
        where = "" if wanted.scope == "project" else f" --scope {wanted.scope}"
        copy = QuotedPlace(path=older, why=f"{OLDER}; {command}{where}")
        past = replace(past, shared=(*past.shared, copy))
    wishes = PurgeOptions(own_words=wanted.own_words, foreign=wanted.foreign)
    sweeps = [past.sweep(home, wishes=wishes, is_shared=is_claude_home(home)) for home in homes]
    return past, HomePurges(tuple(sweeps))


def _older_copy(settings: Settings, opened: Memory, file: str, wanted: ForgetOptions) -> Path | None:
    """Return the copy of a memory in the home, from before memory had its own directory."""
    from nacre.app.memory_locations import memory_place
    from nacre.memory.memory import Memory
    from nacre.memory.purge.memory import versions_of

    if not settings.memory.home or wanted.scope not in SCOPES or wanted.scope == "team":
        return None
    before = replace(settings, memory=replace(settings.memory, home=None))
    place = memory_place(before, "user" if wanted.scope == "user" else "project")
    if place.directory == opened.location.directory:
        return None
    known = {content for content, _ in versions_of(opened, file) if content}
    is_copy = any(content in known for content, _ in versions_of(Memory(place), file))
    return place.directory / file if is_copy else None


async def _exact(opened: Memory, name: str) -> PurgeTarget | LogLine | str:
    """Return the exact file, existing or forgotten, the line of a log, or what an interrupted purge left."""
    from nacre.memory.daily_log import read_logs
    from nacre.memory.memory import entries_named
    from nacre.memory.purge.memory import ALL_LOGS, line_named, read_journal

    if begun := read_journal(opened, name):
        if not begun.forms:
            return begun.file
        # Another line may be at its place by now.
        lines = read_logs(opened.location, newest=ALL_LOGS)
        is_same = (one for one in lines if one.place == begun.file and one.text in begun.texts)
        return next(is_same, begun)
    exact = entries_named(name, await opened.list())
    is_known = exact or await opened.log(limit=1, file=name)
    if not is_known and (line := line_named(opened, name)):
        return line
    files = (name, f"{name}.md")
    for file in files:
        if await opened.log(limit=1, file=file):
            return file
    named = [one.file for one in exact if one.file in files or one.title.casefold() == name.casefold()]
    if len(named) > 1:
        several = ", ".join(named)
        raise StoreError(
            f"{name!r} may mean several memories: {several}; name the file, because this cannot be undone"
        )
    if named:
        return named[0]
    if begun := read_journal(opened, name, is_title=True):
        return begun.file
    similar = ", ".join(one.entry.file for one in await opened.search(name, limit=SIMILAR))
    raise StoreError(
        f"no memory and no file of the history is called {name!r}: it is already purged or has another name"
        f"{similar and f'; similar: {similar}'}; `nacre memory log` lists all files"
    )


def _reported(purge: Purge, *, as_json: bool) -> int:
    """Print what was found and what is left; return the exit code."""
    left = [*purge.past.shared, *purge.left]
    if as_json:
        print_json(_report(purge, left))
    else:
        _print_report(purge, left)
    sys.stdout.flush()  # the journal of the purge is deleted next
    return 1 if left or (purge.erased and purge.erased.left) else 0


def _report(purge: Purge, left: list[QuotedPlace]) -> JsonObject:
    leftovers = purge.erased.left if purge.erased else ()
    return {
        "file": purge.past.file,
        "dry_run": purge.erased is None,
        "commits": purge.erased.commits if purge.erased else purge.past.commits,
        "files": [*purge.erased.files] if purge.erased else [],
        "left": [*leftovers, *dict.fromkeys(str(spot.path) for spot in left)],
        "sessions": [*dict.fromkeys(spot.session for spot in left if spot.session)],
        "erased": [_as_json(spot) for spot in purge.found if not spot.why],
        "remaining": [_as_json(spot) for spot in left],
        "searched_files": purge.files,
        "rare_words": len(purge.past.traces.rare_words),
        "project_words": [{"files": [*files]} for files in purge.past.common.values()],
    }


def _as_json(spot: QuotedPlace) -> JsonObject:
    return {"path": str(spot.path), "session": spot.session or None, "line": spot.line, "why": spot.why}


def _print_report(purge: Purge, left: list[QuotedPlace]) -> None:
    is_done = purge.erased is not None
    commits = purge.erased.commits if purge.erased else purge.past.commits
    tense = "it had been" if is_done else "it is"
    verb = "erased" if is_done else "would erase"
    print(printable(f"{verb} {purge.past.file}: {tense} in {commits:,} commit{'s' * (commits != 1)}"))
    gone = [spot for spot in purge.found if not spot.why]
    for session in dict.fromkeys(spot.session for spot in gone if spot.session):
        lines = [str(spot.line) for spot in gone if spot.session == session and spot.line]
        print(printable(f"{tense} in session {session}: {_counted(lines)}"))
    for name in purge.erased.left if purge.erased else ():
        print_error(f"left: {name} still names it; edit it by hand")
    for spot in left[:SHOWN]:
        print_error(f"left: {_place(spot)}: {spot.why}")
    if len(left) > SHOWN:
        print_error(f"left: {len(left) - SHOWN:,} more places; --json lists them")
    for files in purge.past.common.values():
        more = f" and {len(files) - 1:,} more files of the project" if len(files) > 1 else ""
        print(printable(f"one of its words is also in {files[0]}{more}; not removed"))
    if purge.erased:
        _print_searched(purge, is_left=bool(purge.erased.left or left))


def _print_searched(purge: Purge, *, is_left: bool) -> None:
    """Print what was searched for and what was not."""
    from nacre.memory.purge.traces import RUN_WORDS

    count = len(purge.past.traces.rare_words)
    files = f"{purge.files:,} file{'s' * (purge.files != 1)}"
    words = f"{count:,} rare word{'s' * (count != 1)} of it (such as keys, numbers, addresses and names)"
    found = "what was found is named above" if is_left else "nothing was found"
    print(
        f"Searched {files} and the history again, decoded, for its name, its lines, any {RUN_WORDS} of its"
        f" words in a row and {words}: {found}."
    )
    print(
        "Not searched: its common words one by one, images, what is encrypted, and files outside the home,"
        " such as a provider's logs and your backups."
    )


def _counted(lines: list[str]) -> str:
    if not lines:
        return "files beside its log"
    more = f" and {len(lines) - SHOWN:,} more" if len(lines) > SHOWN else ""
    return f"line{'s' * (len(lines) > 1)} {', '.join(lines[:SHOWN])}{more}"


def _place(spot: QuotedPlace) -> str:
    return f"{spot.path}:{spot.line}" if spot.line else str(spot.path)
