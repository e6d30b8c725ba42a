"""The `nacre` command: find the subcommand, run it, and turn every error into an exit code and one line.

0 success, 1 the answer is no, 2 usage, 3 configuration, 4 provider, 130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

from nacre.cli.options import RunOptions, run_options
from nacre.cli.output import print_error
from nacre.errors import NacreError
from nacre.version import VERSION

OK = 0
NO = 1
USAGE = 2
INTERRUPTED = 130
_DEBUG = "nacre.debug"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_OF_THE_DISK = _FULL | {errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE}


class CommandEntry(NamedTuple):
    """Module and help line of a command, so that listing commands imports none of them."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "acp": CommandEntry("nacre.cli.acp", "acp", "Be the agent of an editor (Zed, Toad, JetBrains)."),
    "agents": CommandEntry(
        "nacre.cli.agents.agents", "agents", "List agents and teams, write to them, stop them."
    ),
    "chat": CommandEntry("nacre.cli.chat.chat", "chat", "Chat in the terminal (the same as `nacre`)."),
    "compact": CommandEntry("nacre.cli.sessions.compact", "compact", "Replace older messages by a summary."),
    "console": CommandEntry("nacre.cli.console", "console", "Open the web console."),
    "context": CommandEntry("nacre.cli.sessions.context", "context", "Show context usage."),
    "db": CommandEntry("nacre.cli.db", "db", "Set up and check the database of a server."),
    "doctor": CommandEntry("nacre.cli.doctor.doctor", "doctor", "Check settings, paths, model and key."),
    "dream": CommandEntry("nacre.cli.memory.dream", "dream", "Consolidate this project's memory."),
    "gateway": CommandEntry(
        "nacre.cli.gateway", "gateway", "Pass requests of agents on; show what they cost."
    ),
    "gc": CommandEntry("nacre.cli.sessions.gc", "gc", "Delete data of old sessions."),
    "hook": CommandEntry("nacre.cli.install.hook", "hook", "Answer a hook of Claude Code."),
    "init": CommandEntry("nacre.cli.init.init", "init", "Set up provider, model, memory and completion."),
    "install": CommandEntry("nacre.cli.install.install", "install", "Set nacre up in another program."),
    "instructions": CommandEntry(
        "nacre.cli.memory.instructions",
        "instructions",
        "Show the instructions files in force, and allow includes.",
    ),
    "keys": CommandEntry("nacre.cli.keys", "keys", "Create, list and revoke keys of the server."),
    "mcp": CommandEntry("nacre.cli.mcp", "mcp", "Serve memory to other agents over MCP."),
    "memory": CommandEntry("nacre.cli.memory.memory", "memory", "Save, find, change and move memories."),
    "recall": CommandEntry(
        "nacre.cli.memory.recall", "recall", "Show which memories a message would get, and why."
    ),
    "replay": CommandEntry(
        "nacre.cli.replay", "replay", "Compare the cost of recorded sessions under policies."
    ),
    "serve": CommandEntry("nacre.cli.serve", "serve", "Serve memory over HTTP."),
    "sessions": CommandEntry(
        "nacre.cli.sessions.sessions", "sessions", "List, show, search, check, import and export sessions."
    ),
    "sim": CommandEntry("nacre.cli.sim", "sim", "Run the provider simulator on a loopback port."),
    "stats": CommandEntry(
        "nacre.cli.sessions.stats", "stats", "Summarise tokens, cost, cache hits and memories by day."
    ),
    "tenants": CommandEntry("nacre.cli.tenants", "tenants", "Create and list tenants of a server."),
    "uninstall": CommandEntry("nacre.cli.install.install", "uninstall", "Remove nacre from another program."),
    "verify-provider": CommandEntry(
        "nacre.cli.verify_provider",
        "verify_provider",
        "Check the simulator's assumptions against the real API.",
    ),
    "worker": CommandEntry("nacre.cli.worker", "worker", "Run background jobs of a server."),
}

ON_SERVER = {
    "memory": CommandEntry("nacre.cli.memory.on_server", "memory", "Use the memories on a server."),
    "recall": CommandEntry("nacre.cli.memory.on_server", "recall", "Show what a message would get."),
}
"""The commands that `--server` sends to a server."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; never raises."""
    meta: dict[str, object] = {}
    try:
        if instruction := os.environ.get("_NACRE_COMPLETE"):
            return _completed(instruction)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A name that the terminal cannot show is escaped.
            sys.stdout.reconfigure(errors="backslashreplace")
        args = list(sys.argv[1:] if argv is None else argv)
        context = nacre.make_context("nacre", args, color=False if os.environ.get("NO_COLOR") else None)
        meta = context.meta  # one for the whole command line: a subcommand's `--debug` lands here too
        with context:
            result = nacre.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        return _ending(error, debug=bool(meta.get(_DEBUG) or os.environ.get("NACRE_DEBUG")))
    return result if isinstance(result, int) else OK


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if ctx.params.get("server"):
            entry = ON_SERVER.get(cmd_name)
            if entry is None:
                raise click.UsageError(
                    f"{cmd_name} works on this machine; with --server there are {', '.join(ON_SERVER)}",
                    ctx=ctx,
                )
        command = getattr(importlib.import_module(entry.module), entry.function)
        assert isinstance(command, click.Command)
        _take_debug(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"no command {args[0]!r}{_did_you_mean(args[0])}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_DEBUG] = True


def _take_debug(command: click.Command) -> None:
    """Accept `--debug` after the command's name, at any depth."""
    if not any("--debug" in param.opts for param in command.params):
        command.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_set_debug,
                help="Show a traceback on errors.",
            )
        )
    if isinstance(command, click.Group):
        for child in command.commands.values():
            _take_debug(child)


def _is_text(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """The prompt follows -p directly; a prompt in another position gets an explanation."""
    if any(value in param.opts for param in ctx.command.params):
        raise click.UsageError(f"-p takes the prompt next, not {value}: nacre -p TEXT {value} …", ctx=ctx)
    return value


@click.group(
    cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(VERSION, prog_name="nacre", message="%(prog)s %(version)s")
@click.option(
    "-p",
    "--print",
    "prompt",
    metavar="TEXT",
    callback=_is_text,
    help="Answer one prompt and exit; piped input is appended, or is the prompt with `-`.",
)
@click.option(
    "--image",
    multiple=True,
    metavar="FILE",
    help="Send a picture with the prompt of `-p`; may be repeated.",
)
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "stream-json"]),
    default=None,
    help="Output format of `-p`.",
)
@click.option(
    "--server",
    metavar="URL",
    help="Use the memory on this server, with the key in NACRE_SERVER_KEY; for `memory` and `recall`.",
)
@run_options
@click.pass_context
def nacre(ctx: click.Context, /, **given: str | int | bool | tuple[str, ...] | None) -> int:
    """Memory and context management for LLM agents.

    Bare `nacre` starts a chat in the terminal; `nacre -p TEXT` answers once and exits.
    """
    options = RunOptions(debug=_DEBUG in ctx.meta).updated(**given)
    _check(ctx, options, has_format=given["output_format"] is not None)
    ctx.obj = options
    if ctx.invoked_subcommand is not None:
        return OK
    if options.prompt is None:
        from nacre.cli.chat.chat import run_chat

        return run_chat(options)
    from nacre.cli.chat.print_mode import run_prompt

    return run_prompt(options)


_take_debug(nacre)


def _check(ctx: click.Context, options: RunOptions, *, has_format: bool) -> None:
    """Refuse options that contradict each other."""
    if options.server is not None and ctx.invoked_subcommand is None:
        raise click.UsageError(f"--server requires a command; there are {', '.join(ON_SERVER)}")
    if options.prompt is not None and ctx.invoked_subcommand is not None:
        raise click.UsageError(f"-p cannot precede {ctx.invoked_subcommand!r}; use only one of them")
    if options.prompt is not None and not options.prompt.strip():
        raise click.UsageError("-p needs a prompt")
    if has_format and options.prompt is None:
        raise click.UsageError("--output-format requires -p; add -p TEXT")
    if options.image and options.prompt is None:
        raise click.UsageError("--image requires -p; add -p TEXT")
    options.check()


def _did_you_mean(word: str) -> str:
    from difflib import get_close_matches

    memory = getattr(importlib.import_module(COMMANDS["memory"].module), COMMANDS["memory"].function)
    if isinstance(memory, click.Group) and word in memory.commands:
        return f"; did you mean `nacre memory {word}`?"
    close = get_close_matches(word, COMMANDS, n=1)
    return f"; did you mean `nacre {close[0]}`?" if close else ""


def _completed(instruction: str) -> int:
    from click.shell_completion import shell_complete

    return shell_complete(nacre, {}, "nacre", "_NACRE_COMPLETE", instruction)


def _ending(error: Exception, *, debug: bool) -> int:
    """Print one line on how the command failed, and return its exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, OSError):
        was_closed = _is_reader_gone()
        _drop_unwritten()
        if was_closed and isinstance(error, BrokenPipeError):
            return OK  # the reader had enough, as in `nacre sessions list | head`
    if debug and not isinstance(error, click.ClickException):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()  # a page of help, which one line could not hold
        return USAGE
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "nacre"
        print_error(f"{error.format_message().rstrip('.')} (see `{where} --help`)")
        return USAGE
    if isinstance(error, click.ClickException):
        print_error(error.format_message())
        return error.exit_code
    if isinstance(error, NacreError):
        print_error(str(error))
        return error.exit_code
    hint = "" if debug else "; run with --debug to see where"
    print_error(_of_the_system(error) or f"unexpected {type(error).__name__}: {error}{hint}")
    return NO


def _of_the_system(error: Exception) -> str | None:
    """Return advice for a failure of the system: no working directory, a full, read-only or broken disk."""
    if isinstance(error, FileNotFoundError) and error.filename is None:
        try:
            os.getcwd()  # noqa: PTH109 - loading pathlib would cost every start
        except FileNotFoundError:
            return "the directory you are in is gone; change to one that is there and try again"
    if isinstance(error, OSError) and error.filename is None and error.errno in _FULL:
        return f"the output cannot be written ({error.strerror}); free some space or send it elsewhere"
    if isinstance(error, OSError) and error.errno in _OF_THE_DISK and isinstance(error.filename, str):
        from nacre.store.disk import explain

        return explain(error, error.filename)
    return None


def _is_reader_gone() -> bool:
    """Whether stdout is a pipe whose reader has closed it; other broken pipes are ordinary errors."""
    import select

    if sys.stdout is None or not hasattr(select, "poll"):
        return sys.stdout is not None
    poll = select.poll()
    poll.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _drop_unwritten() -> None:
    """Discard what stdout cannot take, so that the interpreter's last flush is quiet."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
