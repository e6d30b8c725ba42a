"""How a dream is shown: what it did and why, its diff, its state, and a question about every change."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import click

from nacre.cli.output import has_colour, printable

if TYPE_CHECKING:
    from nacre.layers.l6_dream.copy import Copy
    from nacre.layers.l6_dream.state import State

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
SHOWN_TEXTS = 3
"""Of the last turns' words; the JSON has them all."""


def report_lines(state: State, *, is_dry: bool = False) -> list[str]:
    """What a dream changed and why, a line for each file."""
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


def status_lines(state: State, last: datetime | None, gates: Mapping[str, int]) -> list[str]:
    """What the dream is doing, or what became of the last one."""
    when = last.astimezone().strftime("%Y-%m-%d %H:%M") if last else "never"
    lines = [f"last consolidated: {when}"]
    if state.status != "never":
        # How far it has come is of interest while it goes on: one that changed nothing ends as it started.
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


def diffs(copy: Copy, files: frozenset[str] | None = None) -> str:
    """What differs, as a unified diff."""
    shown = [file for file in copy.changed if files is None or file in files]
    return "".join(_diff(file, copy.base.get(file), copy.now.get(file)) for file in shown)


def show_diff(copy: Copy, files: frozenset[str] | None = None) -> None:
    """Print what differs."""
    colour = has_colour()
    for line in diffs(copy, files).splitlines():
        click.secho(printable(line), fg=_COLOURS.get(line[:1]) if colour else None, color=colour)


def refused(copy: Copy) -> frozenset[str]:
    """Ask about every change; the files of those the person does not want."""
    unwanted: set[str] = set()
    reasons = {step.file: step.reason for step in copy.told()}
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
