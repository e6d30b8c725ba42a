"""`nacre doctor`: show the settings in force and their origin, and check them."""

from __future__ import annotations

import os
import platform
import tempfile
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.doctor.check import Check
from nacre.cli.doctor.data_sent import DataSent, ways_out
from nacre.cli.doctor.memory import MemoryReport, instruction_checks, memory_report, secret_checks
from nacre.cli.options import RunOptions
from nacre.cli.output import print_json, print_table
from nacre.errors import ConfigError
from nacre.formatting import how_to_install
from nacre.messages.blocks import Json, JsonObject
from nacre.settings import Settings, load
from nacre.settings.schema import KEYS, SettingKey
from nacre.tools.rules import parse_rule
from nacre.version import VERSION

if TYPE_CHECKING:
    from nacre.providers.choose import ModelChoice
import shlex

from nacre.cli.doctor.check import note

if TYPE_CHECKING:
    from nacre.agents.worktree import LeftoverWorktree


SECRETS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
EXTRAS = {"anthropic": "anthropic", "openai": "openai", "tui": "textual", "mcp": "mcp", "embed": "numpy"}
"""Optional extras and the module that proves each is installed."""
MIN_FREE_BYTES = 100_000_000
"""A long session with its offloaded results takes tens of megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """All results of `nacre doctor`."""

    choice: ModelChoice | None
    known: MemoryReport
    checks: tuple[Check, ...]
    ways: tuple[DataSent, ...]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--all", "show_all", is_flag=True, help="Also list settings that are at their defaults.")
@click.pass_obj
def doctor(options: RunOptions, /, *, as_json: bool, show_all: bool) -> int:
    """Show and check the settings in force, the model, the paths and memory, and list what leaves the
    machine."""
    settings = load(Path.cwd(), os.environ, cli=options.as_settings(), is_for_looking=True)
    choice, model_check = _model(settings)
    known = memory_report(settings)
    checks = [*_settings_checks(settings), model_check, *_disk_checks(settings.home)]
    if choice is not None and EXTRAS.get(choice.provider_name):
        checks.append(_vendor_check(choice.provider_name))
    checks += [*known.checks, *instruction_checks(settings), *secret_checks(settings)]
    checks += worktree_checks(settings)
    found = DoctorReport(
        choice=choice, known=known, checks=tuple(checks), ways=tuple(ways_out(settings, choice))
    )
    if as_json:
        print_json(_report(settings, found))
    else:
        _print_report(settings, found, show_all=show_all)
    return 0 if all(check.ok for check in checks) else 1


def _model(settings: Settings) -> tuple[ModelChoice | None, Check]:
    from nacre.providers.choose import choose

    try:
        choice = choose(settings.model, settings.environ)
    except ConfigError as error:
        return None, Check("model", ok=False, message=str(error))
    return choice, Check("model", ok=True, message=choice.reason)


def _settings_checks(settings: Settings) -> list[Check]:
    found = [Check("settings", ok=False, message=problem.line) for problem in settings.problems]
    given = settings.permissions
    for listed in (*given.deny, *given.ask, *given.allow):
        try:
            parse_rule(listed.text, "ask", listed.origin)
        except ConfigError as error:
            found.append(Check("permissions", ok=False, message=str(error)))
    return found or [Check("settings", ok=True, message="every file and variable can be read")]


def _disk_checks(home: Path) -> list[Check]:
    """Check whether the home, or its nearest existing parent, is writable."""
    place = next(directory for directory in (home, *home.parents) if directory.exists())
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"\0")
        status = os.statvfs(place)
    except OSError as error:
        message = f"{place} cannot be written ({error.strerror}); set NACRE_HOME to a directory of yours"
        return [Check("disk", ok=False, message=message)]
    if status.f_bavail * status.f_frsize < MIN_FREE_BYTES:
        return [Check("disk", ok=False, message=f"less than {MIN_FREE_BYTES:,} bytes are free under {place}")]
    return [Check("disk", ok=True, message=f"{place} can be written")]


def _vendor_check(name: str) -> Check:
    if find_spec(EXTRAS[name]) is not None:
        return Check("vendor", ok=True, message=f"the {name} package is installed")
    return Check("vendor", ok=False, message=f"the {name} package is missing: {how_to_install(name)}")


def _report(settings: Settings, found: DoctorReport) -> JsonObject:
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "ok": all(check.ok for check in found.checks),
        "settings": [
            {"name": key.name, "value": _value(settings, key), "origin": settings.origin(key.name)}
            for key in KEYS.values()
        ],
        "paths": dict(_paths(settings)),
        "trusted": settings.is_trusted,
        "memory": settings.memory.is_on,
        "memory_facts": found.known.facts,
        "leaves": [asdict(way) for way in found.ways],
        "model": None if found.choice is None else asdict(found.choice),
        "keys": {name: bool(settings.environ.get(name)) for name in SECRETS},
        "extras": {extra: find_spec(module) is not None for extra, module in EXTRAS.items()},
        "checks": [asdict(check) for check in found.checks],
        "problems": [
            {"place": problem.place, "message": problem.message, "error": problem.is_error}
            for problem in settings.problems
        ],
    }


def _paths(settings: Settings) -> dict[str, str]:
    from nacre.store.home import canonical, slug

    return {
        "home": str(settings.home),
        "sessions": str(settings.home / "projects" / slug(canonical(settings.cwd))),
        "project": str(settings.project_root),
    }


def _value(settings: Settings, key: SettingKey) -> Json:
    """Return a value for display: of tables only the names, of addresses no password."""
    value: object = settings
    for word in key.path:
        value = getattr(value, word)
    if key.name == "env":
        return list(settings.env_names)
    if isinstance(value, dict):
        return sorted(value)
    if isinstance(value, tuple):
        return [str(getattr(each, "text", each)) for each in value]
    if isinstance(value, str) and "://" in value:
        scheme, _, rest = value.partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _print_report(settings: Settings, found: DoctorReport, *, show_all: bool) -> None:
    choice = found.choice
    print(f"nacre {VERSION}, Python {platform.python_version()}")
    print()
    keys = {name: "present" if settings.environ.get(name) else "not set" for name in SECRETS}
    extras = [extra for extra, module in EXTRAS.items() if find_spec(module) is not None]
    rows = {
        "model": f"{choice.provider_name}: {choice.model}" if choice else "none",
        "offer": choice.offer if choice else None,
        **_paths(settings),
        "trusted": "yes" if settings.is_trusted else "no",
        "memory": "on" if settings.memory.is_on else "off",
        **found.known.lines,
        **keys,
        "extras": ", ".join(extras) or "none",
    }
    print_table([name, text] for name, text in rows.items() if text)
    print()
    shown = [key for key in KEYS.values() if show_all or settings.origin(key.name) != "default"]
    print_table(
        ([key.name, _text(_value(settings, key)), settings.origin(key.name)] for key in shown),
        header=("setting", "value", "from"),
    )
    if not show_all:
        print(f"{len(KEYS) - len(shown)} settings are at their defaults (--all lists them)")
    print()
    print_table(
        ([way.what, way.to, way.detail] for way in found.ways), header=("what leaves", "to", "which is")
    )
    print()
    print_table([check.mark, check.name, check.message] for check in found.checks)


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


NAME = "worktrees"


def worktree_checks(settings: Settings) -> list[Check]:
    """List left-over worktrees and the commands that remove them; nothing is changed."""
    if not (settings.home / NAME).is_dir():
        return []
    import asyncio

    from nacre.agents.worktree import leftovers

    found = asyncio.run(leftovers(settings.home))
    empty = [one for one in found if one.left is None]
    notes = [note(NAME, _worktree_check(one)) for one in found if one.left is not None]
    if empty:
        count = f"{len(empty):,} worktree{'s' * (len(empty) != 1)}"
        words = f"{count} of agents that are gone, with nothing in them; remove them with: nacre gc --yes"
        notes.insert(0, note(NAME, words))
    return notes


def _worktree_check(one: LeftoverWorktree) -> str:
    """Describe the content of a worktree and the commands that remove it."""
    assert one.left is not None
    tree = one.record.tree
    git = f"git -C {shlex.quote(str(tree.repository))}"
    away = f"{git} worktree remove --force {shlex.quote(str(tree.path))} && {git} branch -D {tree.branch}"
    return f"{one.left.description}; once you have what you need of it: {away}"
