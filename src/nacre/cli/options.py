"""What the command line says about a run, as one value that every command understands."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import click

if TYPE_CHECKING:
    from nacre.settings import Settings

OutputFormat = Literal["text", "json", "stream-json"]
Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The switches of `nacre`, `nacre chat` and `nacre -p`; `ctx.obj` of every command."""

    prompt: str | None = None
    """The text after `-p`; None means an interactive session."""
    output_format: OutputFormat = "text"
    continue_: bool = False
    """Go on with the newest session of this directory."""
    resume: str | None = None
    """Go on with the session of this id."""
    no_memory: bool = False
    bare: bool = False
    incognito: bool = False
    """Leave nothing on disk."""
    line: bool = False
    """Talk line by line, although the terminal could do more."""
    model: str | None = None
    max_turns: int | None = None
    debug: bool = False

    def updated(self, **given: str | int | bool | None) -> RunOptions:
        """With what a subcommand was given on top; an option that was not given changes nothing."""
        known = {field.name for field in fields(self)}
        said = {name: value for name, value in given.items() if name in known and value not in (None, False)}
        return replace(self, **said)  # type: ignore[arg-type]

    @property
    def session(self) -> str | None:
        """The session to open, as `open_agent` takes it; None for one that leaves nothing on disk."""
        if self.incognito:
            return None
        return "latest" if self.continue_ else self.resume or "new"

    def check(self) -> None:
        """Refuse options that contradict each other or say nothing, wherever they stood."""
        if self.resume is not None and not self.resume.strip():
            raise click.UsageError("--resume needs an id; `nacre sessions list` shows them")
        if self.continue_ and self.resume is not None:
            raise click.UsageError("--continue and --resume exclude each other; leave one of them out")
        if self.incognito and (self.continue_ or self.resume is not None):
            raise click.UsageError("--incognito opens nothing on disk; leave out --continue and --resume")

    def as_settings(self) -> dict[str, str | int | bool]:
        """What these options mean in settings: the command line's layer for `nacre.settings.load`."""
        named = {
            "model": self.model,
            "maxTurns": self.max_turns,
            "simple": self.bare or None,
            "disableAutoMemory": self.no_memory or None,
        }
        return {key: value for key, value in named.items() if value is not None}


def load_settings(options: RunOptions) -> Settings:
    """Read the settings for this run; raises `ConfigError` when a value in them cannot be used."""
    from nacre.settings import load

    settings = load(Path.cwd(), os.environ, cli=options.as_settings())
    settings.require_sound()
    return settings


def run_options(command: Function) -> Function:
    """The options that `nacre` and `nacre chat` share; they arrive under the field names of `RunOptions`."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


_SHARED = (
    click.option(
        "--continue", "continue_", is_flag=True, help="Go on with the newest session of this directory."
    ),
    click.option("--resume", metavar="ID", help="Go on with this session."),
    click.option("--no-memory", is_flag=True, help="Neither recall nor save memories."),
    click.option("--bare", is_flag=True, help="No memory, no notes, no background work."),
    click.option("--incognito", is_flag=True, help="Leave nothing on disk."),
    click.option("--line", is_flag=True, help="Talk line by line instead of on the whole screen."),
    click.option(
        "--model", metavar="NAME", help="The model to ask; see `nacre doctor` for the one in force."
    ),
    click.option("--max-turns", type=click.IntRange(min=1), metavar="N", help="Stop after N model calls."),
)
