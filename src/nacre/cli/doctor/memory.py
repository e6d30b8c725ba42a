"""Checks of memory, instructions and credentials in sessions (M16c, M23, M24, M27)."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.errors import ConfigError, NacreError
from nacre.messages.blocks import JsonObject
from nacre.settings import Settings

if TYPE_CHECKING:
    from nacre.memory.files.location import Location


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked and the result."""

    name: str
    ok: bool
    message: str
    is_note: bool = False
    """A remark: nothing is wrong."""

    @property
    def mark(self) -> str:
        return "PROBLEM" if not self.ok else "note" if self.is_note else "ok"


def note(name: str, message: str) -> Check:
    """Return a check that is only a remark."""
    return Check(name, ok=True, message=message, is_note=True)


SHOWN = 5
"""Files named in one line; the command named with them lists all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """The state of memory as text and JSON, and its checks."""

    lines: dict[str, str] = field(default_factory=dict)
    facts: JsonObject = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


def memory_report(settings: Settings) -> MemoryReport:
    """Report where memory is, what of it a conversation gets, and what is wrong; nothing is created."""
    from nacre.app.memory_locations import decided_by, memory_places

    if not settings.memory.is_on:
        return MemoryReport()
    try:
        places = memory_places(settings)
    except ConfigError as error:
        return MemoryReport(checks=(Check("memory", ok=False, message=str(error)),))
    location = places.project
    own = places.user
    with_index = settings.memory.index
    project = _check_directory(location, with_index=with_index)
    user = _check_directory(own, with_index=with_index)
    shared = _CheckedDirectory()
    if settings.memory.team:
        shared = _check_directory(places.team, with_index=with_index)
    modes = [settings.memory.mode, *["team"] * settings.memory.team, *["no index"] * (not with_index)]
    team = f", {shared.entries:,} of the team" if shared.facts else ""
    counts = f"{project.entries:,} here, {user.entries:,} for all projects{team}"
    return MemoryReport(
        lines={
            "memory at": f"{location.directory} ({decided_by(settings, location)})",
            "memories": f"{counts}; mode: {', '.join(modes)}",
        },
        facts={
            "directory": str(location.directory),
            "source": location.source,
            "decided_by": decided_by(settings, location),
            "mode": settings.memory.mode,
            "index": settings.memory.index,
            "team": settings.memory.team,
            **project.facts,
            "user": {"directory": str(own.directory), **user.facts},
            "shared": shared.facts or None,
        },
        checks=(*project.checks, *user.checks, *shared.checks),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _CheckedDirectory:
    """One memory directory."""

    entries: int = 0
    facts: JsonObject = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


def _check_directory(location: Location, *, with_index: bool) -> _CheckedDirectory:
    from nacre.memory.checks.lint import lint
    from nacre.memory.checks.load_report import load_report
    from nacre.memory.files.scan import scan

    found = scan(location.directory)
    report = load_report(location.directory, found)
    states = Counter(one.state for one in report)
    levels = Counter(str(problem.level) for problem in lint(location.directory, with_index=with_index))
    doubtful: list[str] = []
    if location.history.exists():
        from nacre.memory.files.undo import unconfirmed_files

        with suppress(NacreError, OSError):
            doubtful = sorted(unconfirmed_files(location))
    refusal = why_read_only(location)
    lost = {"cut", "left out"} if with_index else {"left out"}
    amiss = [(one.file, one.why) for one in report if one.state in lost]
    facts: JsonObject = {
        "entries": len(found.entries),
        "states": {str(state): count for state, count in sorted(states.items())},
        "not_loaded": [{"file": file, "why": why} for file, why in amiss],
        "problems": {level: levels[level] for level in ("error", "warning", "info")},
        "read_only": refusal,
        "unconfirmed": [*doubtful],
        "unverified": [one.file for one in found.entries if one.origin == "unverified"],
    }
    checks = [Check("memory", ok=False, message=refusal)] if refusal else []
    # What a conversation does not get, and why (M16c).
    checks += [
        Check("memory", ok=False, message=f"{location.directory}: {why}")
        for file, why in amiss
        if file == "MEMORY.md"
    ]
    if files := [file for file, _ in amiss if file != "MEMORY.md"]:
        message = f"a conversation does not get {_some(files)}; `nacre memory list` says why"
        checks.append(Check("memory", ok=False, message=message))
    if levels["error"] or levels["warning"]:
        count = f"{levels.total():,} remark{'s' * (levels.total() != 1)}"
        message = f"{count} on {location.directory}; `nacre memory lint` lists them"
        is_wrong = bool(levels["error"])
        checks.append(Check("memory", ok=False, message=message) if is_wrong else note("memory", message))
    if unverified := [one.file for one in found.entries if one.origin == "unverified"]:
        words = "is" if len(unverified) == 1 else "are"
        them = "it" if len(unverified) == 1 else "them"
        message = (
            f"{_some(unverified)} {words} unverified and not attached; `nacre memory review` confirms {them}"
        )
        checks.append(note("memory", message))
    if doubtful:
        message = f"edits of {_some(doubtful)} are unconfirmed; see `nacre memory log --unconfirmed`"
        checks.append(note("memory", message))
    if (location.cache / "purging").is_dir():
        from nacre.memory.purge.memory import interrupted_purges

        for file in interrupted_purges(location.cache):
            message = f"a purge of {file} was interrupted; `nacre memory forget {file} --purge` completes it"
            checks.append(Check("memory", ok=False, message=message))
    return _CheckedDirectory(entries=len(found.entries), facts=facts, checks=tuple(checks))


def why_read_only(location: Location) -> str | None:
    """Return why a memory cannot be written, without creating anything."""
    from nacre.memory.files.identity import objection

    real = Path(os.path.realpath(location.directory))
    if real != location.directory:
        return f"{location.directory} is a symlink to {real}, so memory is read-only; set autoMemoryDirectory"
    if location.directory.exists() and not os.access(location.directory, os.R_OK | os.W_OK | os.X_OK):
        return f"no permission to write to {location.directory}; check its owner and its mode"
    return objection(location.identity_file, location.owner)


def instruction_checks(settings: Settings) -> list[Check]:
    """Check for oversized and unreadable instructions files, and for includes without consent (M23, M24)."""
    from nacre.app.memory_locations import instruction_paths
    from nacre.memory.instructions.load import load_instructions

    loaded = load_instructions(instruction_paths(settings))
    return [
        *(Check("instructions", ok=False, message=line) for line in loaded.warnings),
        *(
            note(
                "instructions",
                f"{path} is outside the project; `nacre instructions allow` lets it be included",
            )
            for path in loaded.outside
        ),
    ]


def secret_checks(settings: Settings) -> list[Check]:
    """Search sessions for credentials for two seconds; values are never shown (M27)."""
    from nacre.cli.output import progress_line
    from nacre.inspect.credentials import survey

    with progress_line("looking for credentials in sessions") as progress:
        found = survey(settings.home, progress=progress)
    checks = [
        Check("secrets", ok=False, message=f"{one}; it is in plain text, change the credential")
        for one in found.found[:SHOWN]
    ]
    if len(found.found) > SHOWN:
        more = f"{len(found.found) - SHOWN:,} more in sessions; `nacre sessions check ID` lists a session's"
        checks.append(Check("secrets", ok=False, message=more))
    if found.looked < found.total:
        share = (
            f"looked through the newest {found.looked / 1e6:,.1f} of {found.total / 1e6:,.1f} MB of sessions"
        )
        checks.append(note("secrets", f"{share}; `nacre sessions check ID` looks through one whole"))
    return checks


def _some(files: list[str]) -> str:
    more = f" and {len(files) - SHOWN:,} more" if len(files) > SHOWN else ""
    return f"{', '.join(files[:SHOWN])}{more}"
