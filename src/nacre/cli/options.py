"""Command line options as one value for every command."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import click

from nacre.errors import ConfigError
from nacre.formatting import how_to_install

if TYPE_CHECKING:
    from nacre.settings import Settings
    from nacre.store.postgres.database import Database

OutputFormat = Literal["text", "json", "stream-json"]
Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `nacre`, `nacre chat` and `nacre -p`; `ctx.obj` of every command."""

    prompt: str | None = None
    """The text after `-p`; None means an interactive session."""
    image: tuple[str, ...] = ()
    """Paths of pictures that go with the prompt."""
    output_format: OutputFormat = "text"
    continue_: bool = False
    """Continue the newest session of this directory."""
    resume: str | None = None
    """Continue the session with this id."""
    no_memory: bool = False
    bare: bool = False
    incognito: bool = False
    """Write nothing to disk."""
    line: bool = False
    """Chat line by line even if the terminal could show the full screen."""
    screen_reader: bool = False
    """Chat line by line, with announcements in words and without redrawing."""
    sandbox: bool = False
    """Run commands in a sandbox."""
    model: str | None = None
    thinking: str | None = None
    max_turns: int | None = None
    debug: bool = False
    server: str | None = None
    """Address of the server whose memory is used instead of this machine's."""

    def updated(self, **given: str | int | bool | tuple[str, ...] | None) -> RunOptions:
        """Return the options with those of a subcommand; an option that was not given changes nothing."""
        known = {field.name for field in fields(self)}
        said = {name: value for name, value in given.items() if name in known and value not in (None, False)}
        return replace(self, **said)  # type: ignore[arg-type]

    @property
    def session(self) -> str | None:
        """Return the session for `open_agent`; None for an ephemeral one."""
        if self.incognito:
            return None
        return "latest" if self.continue_ else self.resume or "new"

    def check(self) -> None:
        """Raise an error for options that contradict each other or are empty."""
        if self.resume is not None and not self.resume.strip():
            raise click.UsageError("--resume needs an id; `nacre sessions list` shows them")
        if self.continue_ and self.resume is not None:
            raise click.UsageError("--continue and --resume exclude each other; use only one of them")
        if self.incognito and (self.continue_ or self.resume is not None):
            raise click.UsageError("--incognito reads no stored session; leave out --continue and --resume")

    def as_settings(self) -> dict[str, str | int | bool]:
        """Return the options as settings, for the command line layer of `nacre.settings.load`."""
        named = {
            "model": self.model,
            "thinking": self.thinking,
            "maxTurns": self.max_turns,
            "simple": self.bare or None,
            "disableAutoMemory": self.no_memory or None,
            "sandbox.enabled": self.sandbox or None,
            "terminal.screenReader": self.screen_reader or None,
        }
        return {key: value for key, value in named.items() if value is not None}


def load_settings(options: RunOptions) -> Settings:
    """Load the settings for this run; raises `ConfigError` for an invalid value."""
    from nacre.settings import load

    settings = load(Path.cwd(), os.environ, cli=options.as_settings())
    settings.require_sound()
    return settings


def database_option(command: Function) -> Function:
    """The option that names the database of a server."""
    return click.option(
        "--database",
        envvar="NACRE_DATABASE",
        metavar="URL",
        help="PostgreSQL, as postgresql://USER@HOST/NAME; default: NACRE_DATABASE.",
    )(command)


def open_database(url: str | None, *, is_server: bool = False) -> Database:
    """Return the database that an option or variable names; raises `ConfigError` without one."""
    if not url:
        raise ConfigError("name the database with --database URL or NACRE_DATABASE")
    if find_spec("psycopg") is None:
        raise ConfigError(f"a database needs psycopg; install it with: {how_to_install('postgres')}")
    from nacre.store.postgres.database import Database

    # A command makes few transactions; one that lives longer keeps its connections.
    return Database(url) if is_server else Database(url, is_server=False, idle=0)


def run_options(command: Function) -> Function:
    """Options shared by `nacre` and `nacre chat`, named as the fields of `RunOptions`."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


_SHARED = (
    click.option(
        "--continue", "continue_", is_flag=True, help="Continue the newest session of this directory."
    ),
    click.option("--resume", metavar="ID", help="Continue this session."),
    click.option("--no-memory", is_flag=True, help="Neither recall nor save memories."),
    click.option("--bare", is_flag=True, help="No memory, no notes, no background work."),
    click.option("--incognito", is_flag=True, help="Write nothing to disk."),
    click.option("--line", is_flag=True, help="Chat line by line instead of full screen."),
    click.option(
        "--screen-reader", is_flag=True, help="Chat line by line, in words, without redrawing a line."
    ),
    click.option(
        "--sandbox", is_flag=True, help="Run commands of Bash in a sandbox; refuse them without one."
    ),
    click.option("--model", metavar="NAME", help="Model; `nacre doctor` shows the current one."),
    click.option(
        "--thinking",
        type=click.Choice(["off", "low", "medium", "high"]),
        help="How much the model thinks; by default it decides.",
    ),
    click.option("--max-turns", type=click.IntRange(min=1), metavar="N", help="Stop after N model requests."),
)
LATEST = "latest"


def find_session(settings: Settings, wanted: str) -> Path:
    """Return the path of the log; raises `SessionNotFound` with the alternatives."""
    from nacre.errors import SessionNotFound
    from nacre.store.sessions import Sessions

    if wanted != LATEST:
        return Sessions(settings.home).find(wanted)
    newest = Sessions(settings.home).latest(settings.cwd)
    if newest is None:
        raise SessionNotFound(
            f"there is no session in {settings.cwd} yet; `nacre sessions list --all` shows others"
        )
    return newest
