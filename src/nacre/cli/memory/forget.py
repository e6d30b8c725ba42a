"""`nacre memory forget`: remove a memory so that it can be restored, or erase it for good (M14b)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.history import known_file
from nacre.cli.memory.open import SCOPES, by_hand, json_option, read_only, run, scope_option, writable
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import is_terminal, print_error, print_json, printable
from nacre.cli.progress import progress_line
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
SHARED = "`nacre memory sync` takes it from everybody's memory; the history of that place keeps it"
OLDER = "a copy from before memory had a home of its own, with a history"
SHOWN = 20
"""Places listed individually; `--json` has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
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
    then searches everything again and says for what. Exit code 1 if something is left, with the reason.
    """
    wanted = Wanted(**given)  # type: ignore[arg-type]
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


def _purged(options: RunOptions, name: str, wanted: Wanted) -> int:
    """Sessions first, then the memory itself: its words are known only while it exists."""
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
        return _describe(purge, as_json=wanted.as_json)
    if busy := next((spot for spot in found if spot.is_busy), None):
        raise StoreError(
            f"nothing was erased: {busy.why.partition(';')[0]} and quotes it; close it there first"
        )
    if not wanted.yes and not _is_confirmed(purge):
        print_error("nothing was erased")
        return 1
    return _describe(_erased(purge, sweep, _erasing(opened, target, others)), as_json=wanted.as_json)


def _plan(
    options: RunOptions, opened: Memory, others: list[Memory], target: str | LogLine, wanted: Wanted
) -> tuple[PurgeTarget, HomePurges]:
    from nacre.memory.instructions.load import is_claude_home
    from nacre.memory.purge.home import HomePurges, PurgeOptions, QuotedPlace
    from nacre.memory.purge.memory import purge_target, purge_target_of_line

    settings = load_settings(options)
    homes = dict.fromkeys((settings.home.resolve(), opened.location.base))
    past = (
        purge_target(opened, target, others=others)
        if isinstance(target, str)
        else purge_target_of_line(opened, target)
    )
    if wanted.scope == "team" and settings.memory.team_remote:
        remote = QuotedPlace(path=Path(REMOTE), why=SHARED)
        past = replace(past, shared=(*past.shared, remote))
    past = replace(past, shared=(*past.shared, *_older_copies(settings, opened, past, wanted)))
    wishes = PurgeOptions(own_words=wanted.own_words, foreign=wanted.foreign)
    sweeps = [past.sweep(home, wishes=wishes, is_shared=is_claude_home(home)) for home in homes]
    return past, HomePurges(tuple(sweeps))


def _older_copies(
    settings: Settings, opened: Memory, past: PurgeTarget, wanted: Wanted
) -> Iterator[QuotedPlace]:
    """Return older copies in the home, from before memory had its own directory."""
    from hashlib import sha256

    from nacre.app.memory_locations import memory_place
    from nacre.memory.memory import Memory
    from nacre.memory.purge.home import QuotedPlace
    from nacre.memory.purge.memory import versions_of

    if not settings.memory.home or wanted.scope not in SCOPES:
        return
    before = replace(settings, memory=replace(settings.memory, home=None))
    place = memory_place(before, "user" if wanted.scope == "user" else "project")
    if place.directory == opened.location.directory or wanted.scope == "team":
        return
    held = {sha256(content).hexdigest() for content, _ in versions_of(Memory(place), past.file)}
    if held & past.copies:
        command = f"NACRE_MEMORY_HOME={quote(str(settings.home))} nacre memory forget {past.file} --purge"
        where = "" if wanted.scope == "project" else f" --scope {wanted.scope}"
        yield QuotedPlace(path=place.directory / past.file, why=f"{OLDER}; {command}{where}")


def _is_confirmed(purge: Purge) -> bool:
    for spot in purge.left[:SHOWN]:
        print_error(f"this would stay: {_place(spot)}: {spot.why}")
    return click.confirm(f"Erase {printable(purge.past.file)} for good?", err=True)


def _erasing(opened: Memory, target: str | LogLine, others: list[Memory]) -> Callable[[], Erased]:
    """Return the function that erases the memory itself, a file or a line of a log."""
    from nacre.memory.purge.memory import erase, erase_line

    if isinstance(target, str):
        return lambda: run(erase(opened, target, by_hand(REASON), others=others))
    return lambda: run(erase_line(opened, target, by_hand(REASON)))


def _erased(purge: Purge, sweep: HomePurges, erase: Callable[[], Erased]) -> Purge:
    failed = sweep.clean(spot for spot in purge.found if not spot.why)
    if failed:
        raise StoreError(f"not everything could be erased, so the memory is still there: {failed[0].why}")
    erased = erase()
    return replace(purge, erased=erased, left=tuple(sweep.remaining()), files=sweep.count_files())


async def _exact(opened: Memory, name: str) -> str | LogLine:
    """Return the exact file, existing or forgotten, or the line of a log."""
    from nacre.memory.memory import entries_named
    from nacre.memory.purge.memory import line_named

    is_known = entries_named(name, await opened.list()) or await opened.log(limit=1, file=name)
    if not is_known and (line := line_named(opened, name)):
        return line
    file = await known_file(opened, name)
    if file.removesuffix(".md") == name.removesuffix(".md"):
        return file
    entry = await opened.find(name)
    if entry.title.casefold() != name.casefold():
        raise StoreError(f"{name!r} may mean {file}; name the file, because this cannot be undone")
    return file


def _describe(purge: Purge, *, as_json: bool) -> int:
    left = [*purge.past.shared, *purge.left]
    leftovers = purge.erased.left if purge.erased else ()
    if as_json:
        print_json(_report(purge, left))
    else:
        _print_report(purge, left)
    return 1 if left or leftovers else 0


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
    if purge.erased:
        _print_searched(purge, is_left=bool(purge.erased.left or left))


def _print_searched(purge: Purge, *, is_left: bool) -> None:
    """Print what was searched for and what was not."""
    from nacre.memory.purge.traces import RUN_WORDS

    count = len(purge.past.traces.rare_words)
    files = f"{purge.files:,} file{'s' * (purge.files != 1)}"
    words = f"{count:,} rare word{'s' * (count != 1)} of it (such as keys, long numbers and addresses)"
    found = "what was found is named above" if is_left else "nothing was found"
    print(
        f"Searched {files} and the history again for its name, its lines, any {RUN_WORDS} of its words in a"
        f" row and {words}: {found}."
    )
    print(
        "Not searched: its common words one by one, its words in an encoded form (such as Base64) or"
        " hyphenated at the end of a line, and the memories of other projects."
    )


def _counted(lines: list[str]) -> str:
    if not lines:
        return "files beside its log"
    more = f" and {len(lines) - SHOWN:,} more" if len(lines) > SHOWN else ""
    return f"line{'s' * (len(lines) > 1)} {', '.join(lines[:SHOWN])}{more}"


def _place(spot: QuotedPlace) -> str:
    return f"{spot.path}:{spot.line}" if spot.line else str(spot.path)
