"""`nacre doctor`: show the settings in force and their origin, and check them."""

from __future__ import annotations

import os
import platform
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.doctor.clients import client_checks
from nacre.cli.doctor.data_sent import DataSent, ways_out
from nacre.cli.doctor.memory import (
    Check,
    MemoryReport,
    instruction_checks,
    memory_report,
    note,
    secret_checks,
)
from nacre.cli.doctor.model import recall_checks, tool_call_checks, window_checks
from nacre.cli.options import RunOptions
from nacre.cli.output import print_json, print_table
from nacre.errors import ConfigError, ToolError
from nacre.formatting import how_to_install
from nacre.messages.blocks import Json, JsonObject
from nacre.settings import Settings, load
from nacre.settings.schema import KEYS, SettingKey
from nacre.version import VERSION

if TYPE_CHECKING:
    from nacre.cache.models import ThinkingLevel
    from nacre.providers.choose import ModelChoice
    from nacre.tools.rules import PermissionRule

SECRETS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
EXTRAS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "tui": "textual",
    "mcp": "mcp",
    "acp": "acp",
    "embed": "numpy",
}
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
    paths: dict[str, str]
    sandbox: dict[str, str]
    """What commands in the sandbox reach, by path; empty unless it was asked for."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--all", "show_all", is_flag=True, help="Also list settings that are at their defaults.")
@click.option(
    "--sandbox",
    "show_sandbox",
    is_flag=True,
    help="Check with the sandbox on, and list what commands in it can read and write.",
)
@click.option("--try", "tries", is_flag=True, help="Send one small request: does the model call tools?")
@click.pass_obj
def doctor(options: RunOptions, /, *, as_json: bool, show_all: bool, show_sandbox: bool, tries: bool) -> int:
    """Show and check the settings in force, the model, the paths and memory, and list what leaves the
    machine."""
    from nacre.providers.choose import choose
    from nacre.store.home import canonical, slug

    options = replace(options, sandbox=options.sandbox or show_sandbox)
    settings = load(Path.cwd(), os.environ, cli=options.as_settings(), is_for_looking=True)
    checks = [Check("settings", ok=False, message=problem.line) for problem in settings.problems]
    checks = checks or [Check("settings", ok=True, message="every file and variable can be read")]
    checks += [note("claude settings", one.line) for one in settings.claude_notes]
    choice = None
    try:
        choice = choose(settings.model, settings.environ)
        checks.append(Check("model", ok=True, message=choice.reason))
        checks += _thinking_checks(choice.model, settings.thinking)
        checks += window_checks(settings, choice)
        checks += tool_call_checks(settings, choice, tries=tries)
        checks += recall_checks(settings)
    except ConfigError as error:
        checks.append(Check("model", ok=False, message=str(error)))
    known = memory_report(settings)
    checks += _disk_checks(settings.home)
    if choice is not None and (extra := EXTRAS.get(choice.provider_name)):
        name = choice.provider_name
        is_there = find_spec(extra) is not None
        state = "is installed" if is_there else f"is missing: {how_to_install(name)}"
        checks.append(Check("vendor", ok=is_there, message=f"the {name} package {state}"))
    checks += [*known.checks, *instruction_checks(settings), *secret_checks(settings)]
    checks += [*_sandbox_checks(settings), *worktree_checks(settings), *_rule_notes(settings)]
    checks += client_checks(settings, os.environ)
    paths = {
        "home": str(settings.home),
        "sessions": str(settings.home / "projects" / slug(canonical(settings.cwd))),
        "project": str(settings.project_root),
    }
    found = DoctorReport(
        choice=choice,
        known=known,
        checks=tuple(checks),
        ways=tuple(ways_out(settings, choice)),
        paths=paths,
        sandbox=_sandbox_places(settings) if show_sandbox else {},
    )
    if as_json:
        print_json(_report(settings, found))
    else:
        _print_report(settings, found, show_all=show_all)
    return 0 if all(check.ok for check in checks) else 1


def _thinking_checks(model: str, level: ThinkingLevel | None) -> list[Check]:
    """Return whether the model takes the level of thinking in the settings; nothing without one."""
    from nacre.cache.models import check_thinking

    if level is None:
        return []
    try:
        check_thinking(model, level)
    except ConfigError as error:
        return [Check("thinking", ok=False, message=str(error))]
    return [Check("thinking", ok=True, message=f"{model} is asked with thinking={level}")]


def _rule_notes(settings: Settings) -> list[Check]:
    """Return a note for each rule that denies or asks and matches nothing: it may be misspelled."""
    from nacre.tools.reach import below
    from nacre.tools.rules import parse_rule

    given = settings.permissions
    rules = []
    for one in (*given.deny, *given.ask):
        with suppress(ConfigError):  # an invalid rule is a problem of the settings
            rules.append(parse_rule(one.text, "deny", one.origin))
    if not rules:
        return []
    try:
        files = list(below(settings.project_root))
    except OSError:
        files = None  # too many to compare
    hints = ((rule, _rule_hint(rule, files, settings)) for rule in rules)
    return [note("permissions", f"{rule.text} ({rule.origin}) {hint}") for rule, hint in hints if hint]


def _rule_hint(rule: PermissionRule, files: Sequence[Path] | None, settings: Settings) -> str:
    """Return what may be wrong with a rule; empty if it matches something, or if that is not known."""
    from nacre.tools.policy import HARMLESS
    from nacre.tools.rules import EDITORS, READERS, meets_path

    if rule.tool.startswith("mcp__"):
        server = rule.tool.split("__")[1]
        is_known = any(fnmatchcase(name, server) for name in settings.mcp_servers)
        return "" if is_known else "names no MCP server of the settings"
    if not any(map(rule.names, READERS | EDITORS | HARMLESS | {"Bash", "WebFetch"})):
        return "names no tool, so it protects nothing; correct its name"
    is_path = bool(rule.pattern) and any(map(rule.names, READERS | EDITORS))
    if not is_path or files is None or rule.pattern.startswith(("//", "~/")):
        return ""
    if any(meets_path(rule.pattern, file, root=settings.project_root) for file in files):
        return ""
    return "matches no file of the project now; a path from the root of the file system begins with //"


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


def _sandbox_checks(settings: Settings) -> list[Check]:
    """Check whether commands can run in the sandbox of this session, by a run of `true` in it."""
    from nacre.app.sandbox import missing_directories, session_sandbox
    from nacre.tools.sandbox import status

    works, message = status()
    try:
        problem = session_sandbox(settings).problem(settings.cwd) if works else message
        absent = missing_directories(settings)
    except ConfigError as error:
        return [Check("sandbox", ok=False, message=str(error))]
    notes = [note("sandbox", absent)] if absent else []
    if settings.sandbox.enabled:
        words = f"Bash is refused: {problem}" if problem else message
        return [Check("sandbox", ok=not problem, message=words), *notes]
    if works and problem:
        message = f"{message}, but with --sandbox Bash would be refused here: {problem}"
    return [note("sandbox", f"off: commands can do what you can; {message}"), *notes]


def _sandbox_places(settings: Settings) -> dict[str, str]:
    """Return the paths that commands in the sandbox see, with what they can do there."""
    from nacre.app.sandbox import session_sandbox
    from nacre.tools.sandbox import SYSTEM, TMP

    words = {"read": "can be read", "write": "can be read and written", "hidden": "is empty"}
    try:
        sandbox = session_sandbox(settings)
        places = {str(path): words[mode] for path, mode in sandbox.places().items()}
    except (ConfigError, ToolError):
        return {}  # one of the checks says why
    system = {str(path): words["read"] for path in SYSTEM if path.exists()}
    homes = {str(path): "is not there" for path in sandbox.homes}
    network = {"network": "can be used" if sandbox.network else "cannot be used"}
    return {**system, str(TMP): "is empty, private and writable", **homes, **places, **network}


def _report(settings: Settings, found: DoctorReport) -> JsonObject:
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "ok": all(check.ok for check in found.checks),
        "settings": [
            {"name": key.name, "value": _value(settings, key), "origin": settings.origin(key.name)}
            for key in KEYS.values()
        ],
        "paths": {**found.paths},
        "trusted": settings.is_trusted,
        "memory": settings.memory.is_on,
        "memory_facts": found.known.facts,
        "leaves": [asdict(way) for way in found.ways],
        "model": None if found.choice is None else asdict(found.choice),
        "keys": {name: bool(settings.environ.get(name)) for name in SECRETS},
        "extras": {extra: find_spec(module) is not None for extra, module in EXTRAS.items()},
        **({"sandbox": {**found.sandbox}} if found.sandbox else {}),
        "checks": [asdict(check) for check in found.checks],
        "problems": [
            {"place": problem.place, "message": problem.message, "error": problem.is_error}
            for problem in settings.problems
        ],
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
        **found.paths,
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
    if found.sandbox:
        print_table(found.sandbox.items(), header=("in the sandbox", "a command finds that it"))
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
    notes = []
    for one in found:
        if one.left is not None:
            tree = one.record.tree
            git = f"git -C {shlex.quote(str(tree.repository))}"
            away = f"{git} worktree remove --force {shlex.quote(str(tree.path))}"
            away = f"{away} && {git} branch -D {tree.branch}"
            notes.append(note(NAME, f"{one.left.description}; once you have what you need of it: {away}"))
    if empty:
        count = f"{len(empty):,} worktree{'s' * (len(empty) != 1)}"
        words = f"{count} of agents that are gone, with nothing in them; remove them with: nacre gc --yes"
        notes.insert(0, note(NAME, words))
    return notes
