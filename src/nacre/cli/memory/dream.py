"""`nacre dream`: consolidate this project's memory, show the state, stop it, undo it (layer 6)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.memory.open import by_hand, json_option, place, run
from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import has_colour, print_error, print_json, printable
from nacre.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from nacre.layers.l6_dream.copy import DirectoryCopy
    from nacre.layers.l6_dream.dream import DreamResult
    from nacre.layers.l6_dream.layer import DreamTarget
    from nacre.layers.l6_dream.state import DreamState
    from nacre.settings import Settings
    from nacre.store.history import History

KILL_SECONDS = 15.0
"""How long to wait for a dream in another process to end: it checks five times a second."""
UNDID = "took back dream "


@dataclass(frozen=True, slots=True, kw_only=True)
class DreamCommand:
    """Options of `nacre dream`."""

    force: bool
    dry_run: bool
    yes: bool
    nightly: bool
    by_rule: bool
    pick: bool
    as_json: bool


@click.group(invoke_without_command=True, short_help="Consolidate this project's memory.")
@click.option("--force", is_flag=True, help="Ignore the time and sessions since the last dream.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show the diff.")
@click.option("--yes", is_flag=True, help="Allow more than the usual share of removals.")
@click.option("--nightly", is_flag=True, help="Process daily logs, once a day; for cron.")
@click.option("--by-rule", is_flag=True, help="Use no model.")
@click.option("--pick", is_flag=True, help="Ask about every change.")
@json_option
@click.pass_context
def dream(ctx: click.Context, /, **asked: bool) -> int:
    """Consolidate this project's memory: merge duplicates, write dates out, repair the index.

    Everything is done on a copy, checked, and then committed as one change, or not at all. Memories that you
    wrote yourself get proposals only (`nacre memory review`); pinned memories stay unchanged.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from nacre.cli.signals import run_to_end

    return run_to_end(_dreamt(ctx.obj, DreamCommand(**asked)))


async def _dreamt(options: RunOptions, asked: DreamCommand) -> int:
    from nacre.app.model_layers import dream_target
    from nacre.layers.l6_dream.layer import dream_note
    from nacre.layers.l6_dream.policy import DreamConditions, closed_gate
    from nacre.layers.l6_dream.state import recover
    from nacre.memory.memory import Memory
    from nacre.session.telemetry import Telemetry

    settings = load_settings(options)
    if not settings.memory.is_on:
        raise ConfigError("memory is switched off; see `nacre doctor`")
    location = place(options, "project")
    if asked.dry_run:
        memory = Memory(location)
    else:
        memory = await Memory.at(location, settings.cwd)
        recover(location)
    target = dream_target(settings, memory)
    last = target.last if asked.nightly else target.last_or_first
    conditions = DreamConditions(
        now=target.clock.now(),
        last=lambda: last(with_model=_has_model(settings, asked)),
        sessions=lambda since: len(target.sessions(since)),
        is_daily=asked.nightly or target.is_daily,
        is_forced=asked.force or asked.dry_run,
    )
    why = closed_gate(conditions, target.settings) or ""
    if why:
        said = f"not due: {why}; `nacre dream --force` does it all the same"
        if asked.as_json:
            print_json({
                "status": "skipped", "phase": "starting", "sessions": [], "changes": [], "proposed": [],
                "commit": None, "error": said,
            })  # fmt: skip
        else:
            print(said)
        return 0
    done = await _consolidate(target, settings, asked)
    if not asked.dry_run:
        Telemetry("", target.clock).record_decisions([dream_note(done.state, target.clock)])
    return _report(done, asked)


async def _consolidate(target: DreamTarget, settings: Settings, asked: DreamCommand) -> DreamResult:
    """Consolidate with the configured model, else by rule."""

    from nacre.app.model_layers import model_for_dream
    from nacre.app.open_agent import open_agent
    from nacre.layers.l6_dream.dream import DreamOptions
    from nacre.layers.l6_dream.dream import dream as dream_once
    from nacre.layers.l6_dream.layer import dream_config

    wish = DreamOptions(is_dry=asked.dry_run, is_unlimited=asked.yes, refuse=refused if asked.pick else None)
    if not _has_model(settings, asked):
        return await dream_once(dream_config(target, is_nightly=asked.nightly), wish)
    quiet = replace(settings, mcp_servers={}, hooks={})
    async with open_agent(quiet, ephemeral=True) as ready:
        model = model_for_dream(target, settings, ready.forks, ready.toolset)
        return await dream_once(dream_config(target, model=model, is_nightly=asked.nightly), wish)


def _has_model(settings: Settings, asked: DreamCommand) -> bool:
    from nacre.providers.choose import choose

    named = settings.roles.dream or settings.model
    return not asked.by_rule and choose(named, settings.environ).provider_name != "embedded"


def _report(done: DreamResult, asked: DreamCommand) -> int:

    state = done.state
    is_fine = state.status in {"completed", "skipped", "put off"}
    if asked.as_json:
        document = done.as_json()
        if asked.dry_run and done.copy is not None:
            document["diff"] = diffs(done.copy)
        print_json(document)
        return 0 if is_fine else 1
    if asked.dry_run and done.copy is not None:
        show_diff(done.copy)
    for line in report_lines(state, is_dry=asked.dry_run):
        print(printable(line))
    if not is_fine:
        print_error(f"the dream changed nothing: {state.error}")
    return 0 if is_fine else 1


@dream.command(short_help="Show the running dream or the result of the last.")
@json_option
@click.pass_obj
def status(options: RunOptions, /, *, as_json: bool) -> int:
    """Show the state of the running dream, in any process, or the result of the last one."""
    from nacre.layers.l6_dream.lock import DreamLock
    from nacre.layers.l6_dream.state import BY_RULE_FILE, DreamStateFile, recover

    location = place(options, "project")
    if location.cache.is_dir():
        recover(location)
    board = DreamStateFile(location.cache)
    state = board.read()
    finished = (DreamLock(location.directory, location.cache).last_finished(), board.moment(BY_RULE_FILE))
    last = max((at for at in finished if at is not None), default=None)
    if as_json:
        document = state.as_json()
        document["last"] = last.isoformat() if last else None
        document["gates"] = dict(board.gates())
        print_json(document)
        return 0
    for line in status_lines(state, last, board.gates()):
        print(printable(line))
    return 0


@dream.command(short_help="Stop the running dream.")
@json_option
@click.pass_obj
def kill(options: RunOptions, /, *, as_json: bool) -> int:
    """Stop the running dream, in any process; memory stays unchanged."""
    return run(_killed(options, as_json=as_json))


async def _killed(options: RunOptions, *, as_json: bool) -> int:
    import asyncio

    from nacre.clock import SYSTEM_CLOCK
    from nacre.layers.l6_dream.state import DreamStateFile, recover

    location = place(options, "project")
    board = DreamStateFile(location.cache)
    before = board.read()
    if before.status != "running":
        raise StoreError("no dream is running; `nacre dream status` shows the result of the last one")
    board.ask_to_stop(before.run)
    until = SYSTEM_CLOCK.seconds() + KILL_SECONDS
    state = before
    while state.status == "running" and SYSTEM_CLOCK.seconds() < until:
        recover(location)
        state = board.read()
        await asyncio.sleep(0.05)
    if as_json:
        print_json({"run": before.run, "status": state.status})
    elif state.status == "running":
        print_error(f"process {state.pid} on {state.host} was asked to stop and has not stopped yet")
    else:
        print(f"the dream of process {before.pid} has ended: {state.status}")
    return 1 if state.status == "running" else 0


@dream.command(short_help="Undo the last dream.")
@json_option
@click.pass_obj
def undo(options: RunOptions, /, *, as_json: bool) -> int:
    """Undo the changes of the last dream; later changes stay."""
    return run(_undone(options, as_json=as_json))


async def _undone(options: RunOptions, *, as_json: bool) -> int:

    from nacre.memory.files.undo import undo as take_back
    from nacre.memory.memory import Memory
    from nacre.store.history import History

    memory = await Memory.at(place(options, "project"), Path.cwd())
    found = _last_dream(History(memory.location.history))
    if found is None:
        raise StoreError("there is no dream to undo; `nacre memory log` lists changes")
    commit = await take_back(memory.location, found, change=by_hand(f"{UNDID}{found[:10]}"))
    if as_json:
        print_json({"undone": found, "commit": commit})
    else:
        print(f"undid dream {found[:10]}; later changes were kept")
    return 0


def _last_dream(history: History) -> str | None:
    """Return the newest dream that was not undone."""
    at = history.newest
    undone = set[str]()
    while at:
        head = history.head(at)
        reason = head.signature.reason
        if reason.startswith(UNDID):
            undone.add(reason.removeprefix(UNDID).strip())
        elif head.signature.author == "dream" and at[:10] not in undone:
            return at
        at = head.parent
    return None


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
SHOWN_TEXTS = 3
"""Texts of the last turns in output; the JSON has all."""


def report_lines(state: DreamState, *, is_dry: bool = False) -> list[str]:
    """Describe what a dream changed and why, one line per file."""
    if state.status in {"skipped", "put off"}:
        return [f"{state.status}: {state.error}"]
    if state.status != "completed":
        return []
    lines = [f"{one['action']} {one['file']}: {one['reason']}" for one in state.changes]
    lines += [f"proposed {one['file']}: {one['reason']}" for one in state.proposed]
    if not lines:
        return ["nothing to do: memory is in order"]
    if is_dry:
        return [*lines, "nothing was changed; without --dry-run it will be"]
    if state.proposed:
        lines.append("`nacre memory review` shows what was proposed")
    if state.commit:
        lines.append(f"commit {state.commit[:10]}; `nacre dream undo` takes it back")
    return lines


def status_lines(state: DreamState, last: datetime | None, gates: Mapping[str, int]) -> list[str]:
    """Describe the running dream or the result of the last one."""
    when = last.astimezone().strftime("%Y-%m-%d %H:%M") if last else "never"
    lines = [f"last consolidated: {when}"]
    if state.status != "never":
        # Progress matters only while it runs: a dream without changes ends where it started.
        now = f"{state.status}, {state.phase}" if state.status == "running" else state.status
        lines.append(f"{now}, by {state.by} (process {state.pid} on {state.host})")
        lines.append(f"sessions: {len(state.sessions)}, files touched: {len(state.files)}")
    if state.tools:
        lines.append("tools: " + ", ".join(f"{name} {count}" for name, count in sorted(state.tools.items())))
    lines += [f"| {text}" for text in state.texts[-SHOWN_TEXTS:]]
    if state.error:
        lines.append(f"why: {state.error}")
    if state.failures:
        lines.append(f"failed in a row: {state.failures}")
    if gates:
        lines.append("turns by gate: " + ", ".join(f"{name} {count}" for name, count in gates.items()))
    return lines


def diffs(copy: DirectoryCopy, files: frozenset[str] | None = None) -> str:
    """Return the changes as unified diffs."""
    shown = [file for file in copy.changed if files is None or file in files]
    return "".join(_diff(file, copy.base.get(file), copy.now.get(file)) for file in shown)


def show_diff(copy: DirectoryCopy, files: frozenset[str] | None = None) -> None:
    """Print the changes."""
    colour = has_colour()
    for line in diffs(copy, files).splitlines():
        click.secho(printable(line), fg=_COLOURS.get(line[:1]) if colour else None, color=colour)


def refused(copy: DirectoryCopy) -> frozenset[str]:
    """Ask about every change; returns the files of the rejected ones."""
    unwanted: set[str] = set()
    reasons = {step.file: step.reason for step in copy.final_steps()}
    for part in copy.parts():
        show_diff(copy, part)
        for file in sorted(part):
            print(printable(f"{file}: {reasons.get(file, '')}"))
        if not click.confirm("Do this?", default=True):
            unwanted |= part
    return frozenset(unwanted)


def _diff(file: str, before: bytes | None, after: bytes | None) -> str:
    old, new = ((data or b"").decode(errors="replace").splitlines(keepends=True) for data in (before, after))
    names = ("/dev/null" if before is None else f"a/{file}", "/dev/null" if after is None else f"b/{file}")
    lines = difflib.unified_diff(old, new, *names)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
