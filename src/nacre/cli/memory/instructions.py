"""`nacre instructions`: list instructions files and allow their includes (M22-M24)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nacre.cli.options import RunOptions, load_settings
from nacre.cli.output import human_count, print_error, print_json, print_table, printable
from nacre.messages.blocks import JsonObject

if TYPE_CHECKING:
    from nacre.memory.instructions.files import InstructionFile
    from nacre.memory.instructions.load import Instructions
    from nacre.settings import Settings

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
path_argument = click.argument("path", type=click.Path(path_type=Path))


@click.group(short_help="Show the instructions files in force, and allow what they include.")
def instructions() -> None:
    """List the instructions files in force, and allow files that they include from elsewhere."""


@instructions.command("list", short_help="List every instructions file, loaded or not.")
@json_option
@click.pass_obj
def list_(options: RunOptions, /, *, as_json: bool) -> None:
    """List the instructions files in order of precedence, and those that are not loaded."""
    settings = load_settings(options)
    loaded = _loaded(settings)
    if as_json:
        print_json(_as_json(loaded, settings))
        return
    if not loaded.files:
        print("No instructions file counts here.")
    rows = [[file.kind, human_count(file.bytes), str(file.path), _why(file)] for file in loaded.files]
    print_table(rows, header=("kind", "size", "file", "loaded because") if rows else (), right=(1,))
    for rule in loaded.waiting:
        print(printable(f"waits for a file it is about: {rule.path}"))
    for line in loaded.warnings:
        print(printable(f"note: {line}"))
    for path in loaded.outside:
        print(printable(f"needs your consent: {path} (`nacre instructions allow` gives it)"))


@instructions.command(short_help="Allow this project to include a file from outside.")
@path_argument
@click.pass_obj
def allow(options: RunOptions, /, path: Path) -> int:
    """Allow this project's instructions to include PATH, which is outside of it.

    The consent is for that very file or folder: a link that is changed later asks again.
    """

    from nacre.settings.trust import consent, consented

    settings = load_settings(options)
    real = Path(os.path.realpath(path))
    if real in consented(settings.home, settings.project_root):
        print(printable(f"{real} is allowed already"))
        return 0
    if real not in _loaded(settings).outside:
        print_error(f"nothing here asks for {real}; `nacre instructions list` shows what waits")
        return 1
    consent(settings.home, settings.project_root, real)
    print(printable(f"allowed {real} for {settings.project_root}"))
    for waiting in _loaded(settings).outside:
        print(printable(f"needs your consent: {waiting}"))
    return 0


@instructions.command(short_help="Revoke such a consent.")
@path_argument
@click.pass_obj
def forget(options: RunOptions, /, path: Path) -> int:
    """Revoke what `allow` granted."""
    from nacre.settings.trust import withdraw

    settings = load_settings(options)
    if withdraw(settings.home, settings.project_root, path.absolute()):
        print(printable(f"{path} is no longer allowed for {settings.project_root}"))
        return 0
    print_error(f"{path} was not allowed here; `nacre instructions list` shows what is loaded")
    return 1


def _loaded(settings: Settings) -> Instructions:
    from nacre.app.memory_locations import instruction_paths
    from nacre.memory.instructions.load import load_instructions

    return load_instructions(instruction_paths(settings))


def _why(file: InstructionFile) -> str:
    if file.reason == "include":
        return f"{file.because} includes it"
    return {"managed": "set for this computer", "user": "yours, for all projects"}.get(
        file.kind, "it is in the project"
    )


def _as_json(loaded: Instructions, settings: Settings) -> JsonObject:
    from nacre.settings.trust import consented

    files: list[JsonObject] = [
        {
            "path": str(file.path),
            "kind": file.kind,
            "bytes": file.bytes,
            "characters": len(file.text),
            "reason": file.reason,
            "because": str(file.because) if file.because else None,
            "problems": [*file.problems],
        }
        for file in loaded.files
    ]
    return {
        "files": [*files],
        "waiting": [{"path": str(rule.path), "kind": rule.kind} for rule in loaded.waiting],
        "skipped": [{"path": str(one.path), "why": one.why} for one in loaded.skipped],
        "outside": [str(path) for path in loaded.outside],
        "allowed": [str(path) for path in sorted(consented(settings.home, settings.project_root))],
    }
