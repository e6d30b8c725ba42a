"""`nacre memory edit`: a memory in the person's own editor; what they leave there becomes a commit."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import click

from nacre.cli.memory_opening import by_hand, run, scope_option, writable
from nacre.cli.options import RunOptions
from nacre.cli.output import print_error, printable
from nacre.errors import ConfigError, StoreError

INDEX = "MEMORY.md"


@click.command(short_help="Change a memory in your editor.")
@click.argument("name")
@click.option("--allow-secret", is_flag=True, help="Keep it although it seems to hold a credential.")
@scope_option
@click.pass_obj
def edit(options: RunOptions, /, name: str, *, allow_secret: bool, scope: str) -> int:
    """Open a memory, or MEMORY.md, in $VISUAL or $EDITOR; the result is one commit."""
    from nacre.memory.folder import Folder, version_of

    command = _editor()
    opened = run(writable(options, scope))
    file = INDEX if name == INDEX else run(opened.find(name)).file
    data = Folder(opened.location.directory).read(file)
    with tempfile.TemporaryDirectory(prefix="nacre-") as folder:
        copy = Path(folder) / Path(file).name
        copy.write_bytes(data or b"")
        _run(command, copy)
        new = copy.read_bytes()
        if new == (data or b""):
            print_error(f"{file} is as it was")
            return 0
        change = by_hand("edited by hand")
        try:
            version = version_of(data)
            commit = run(opened.put(file, new, change, if_version=version, allow_secret=allow_secret))
        except StoreError as error:
            kept = put_aside(new, file)
            raise StoreError(f"{error}; your text is in {kept}") from error
    print(printable(f"updated {file} ({commit[:10]})"))
    return 0


def edited_by_hand(copy: Path) -> None:
    """Let the person change a file in their editor."""
    _run(_editor(), copy)


def _editor() -> list[str]:
    words = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        return shlex.split(words)
    except ValueError as error:
        raise ConfigError(f"$EDITOR cannot be understood: {words!r} ({error}); mend it") from error


def _run(command: list[str], copy: Path) -> None:
    try:
        done = subprocess.run([*command, str(copy)], check=False)
    except OSError as error:
        raise ConfigError(
            f"cannot start {command[0]!r}: {error.strerror}; set EDITOR to an editor"
        ) from error
    if done.returncode:
        raise StoreError(f"{command[0]} ended with code {done.returncode}; nothing was changed")


def put_aside(data: bytes, file: str) -> Path:
    """Nobody's words are lost because they cannot be saved."""
    descriptor, name = tempfile.mkstemp(prefix=f"{Path(file).stem}-", suffix=".md")
    with os.fdopen(descriptor, "wb") as kept:
        kept.write(data)
    return Path(name)
