"""`nacre init`: asks for provider, model, memory, Claude Code and completion, and writes the answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from nacre.cli.init.changes import InitChanges
from nacre.cli.init.completion import SHELLS, completion_files
from nacre.cli.output import is_terminal, print_error, printable
from nacre.errors import NacreError

if TYPE_CHECKING:
    from nacre.messages.blocks import JsonObject
    from nacre.settings import Settings

CHECK_TOKENS = 16
"""Output tokens of the request that checks a key."""


class ProviderOption(NamedTuple):
    """A provider that can be chosen."""

    label: str
    variables: tuple[str, ...]
    """Of its key, the preferred one first; none for a server on this machine."""
    model: str
    """Its usual model, as written in settings."""


PROVIDERS = (
    ProviderOption("Anthropic", ("ANTHROPIC_API_KEY",), "claude-sonnet-5-5"),
    ProviderOption("OpenAI", ("OPENAI_API_KEY",), "gpt-6.1-terra"),
    ProviderOption("Google (Gemini)", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini:gemini-3.8-flash"),
    ProviderOption("a server on this machine (Ollama, llama.cpp, vLLM)", (), ""),
)
MEMORY = {
    "yes": "save what is worth keeping from conversations",
    "ask": "propose it, so that you accept each memory (`nacre memory review`)",
    "no": "no memory",
}


@click.command()
@click.option("--yes", is_flag=True, help="Take the default of every question.")
@click.option("--no-check", is_flag=True, help="Do not check the key with a request.")
@click.option("--undo", is_flag=True, help="Remove what `nacre init` has written.")
def init(*, yes: bool, no_check: bool, undo: bool) -> int:
    """Set nacre up: provider and key, model, memory, Claude Code, completion in your shell.

    Every question can be skipped with Enter, and the end of the input skips the rest. Run it again to change
    an answer; --undo removes what it has written.
    """
    from nacre.settings import load

    settings = load(Path.cwd(), os.environ)
    settings.require_sound()
    changes = InitChanges(settings.home)
    if undo:
        return _undo(changes)
    dialog = Dialog(is_silent=yes)
    print(printable(f"nacre keeps its files in {settings.home}. Enter takes the answer in capitals."))
    try:
        _choose_provider(dialog, settings, changes, checks=not no_check)
        _choose_memory(dialog, settings, changes)
        _offer_claude_code(dialog, changes)
        _offer_completion(dialog, os.environ, changes)
    except KeyboardInterrupt:
        print("\nstopped; what you answered so far is kept")
    for line in changes.lines:
        print(printable(line))
    print("Nothing was changed." if not changes.lines else "Undo: nacre init --undo")
    print("Start a chat with: nacre")
    return 0


class Dialog:
    """Asks in the terminal or reads answers from a pipe; after the end of input nothing is agreed to."""

    def __init__(self, *, is_silent: bool) -> None:
        self._is_silent = is_silent
        self._has_ended = False

    def ask(self, question: str, default: str = "", *, is_secret: bool = False) -> str:
        """Return the answer without spaces around it, or the default for an empty one."""
        if self._is_silent:
            return default
        try:
            answer = getpass(question) if is_secret and is_terminal(sys.stdin) else input(question)
        except (EOFError, UnicodeDecodeError):
            self._is_silent = self._has_ended = True
            print()
            return default
        return answer.strip() or default

    def agrees(self, question: str, *, default: bool) -> bool:
        letters = "[Y]es, [n]o" if default else "[y]es, [N]o"
        answer = self.ask(f"{question} {letters}: ", "y" if default else "n").lower()
        return answer in {"y", "yes"} and not self._has_ended

    def choose(self, question: str, names: list[str], default: int) -> int:
        """Return the place of the chosen row; asks again twice if the answer is none of them."""
        for place, name in enumerate(names, 1):
            print(printable(f"  {place}  {name}"))
        for _ in range(3):
            answer = self.ask(f"{question} [{default + 1}]: ", str(default + 1))
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return int(answer) - 1
            print_error(f"type a number from 1 to {len(names)}")
        return default


def _choose_provider(dialog: Dialog, settings: Settings, changes: InitChanges, *, checks: bool) -> None:
    print("\nWhich provider?")
    environ = settings.environ
    present = [any(environ.get(name) for name in one.variables) for one in PROVIDERS]
    names = [
        f"{one.label}{' (its key is set)' * found}" for one, found in zip(PROVIDERS, present, strict=True)
    ]
    keep = (
        "keep the present one"
        if settings.model or any(present)
        else "none: the embedded engine answers by rules, without a key"
    )
    place = dialog.choose("number", [*names, keep], present.index(True) if any(present) else len(PROVIDERS))
    if place == len(PROVIDERS):
        return
    chosen = PROVIDERS[place]
    if not chosen.variables:
        name = dialog.ask("model, such as ollama:qwen3 (empty skips): ")
        if name:
            changes.set_value(("model",), name)
        return
    key = next((value for name in chosen.variables if (value := environ.get(name))), "")
    is_new = not key
    if is_new:
        where = f"kept in {changes.settings}, which only you can read"
        key = dialog.ask(f"API key ({where}; empty skips): ", is_secret=True)
        if not key:
            print(f"set {chosen.variables[0]} in your shell, or run nacre init again")
            return
    model = dialog.ask(f"model [{chosen.model}]: ", chosen.model)
    with_key = {**environ, chosen.variables[0]: key}
    question = "check it with one small request (less than a cent)?"
    if checks and dialog.agrees(question, default=True) and (why := key_problem(settings, model, with_key)):
        print_error(why)
        if not dialog.agrees("keep it all the same?", default=False):
            return
    if is_new:
        changes.set_value(("env", chosen.variables[0]), key, is_secret=True)
    changes.set_value(("model",), model)


def key_problem(settings: Settings, model: str, environ: Mapping[str, str]) -> str:
    """Return why a request with this model and key fails; empty if it is answered."""
    import asyncio
    from dataclasses import replace

    from nacre.app.open_agent import build_provider
    from nacre.providers.base import Request, complete
    from nacre.providers.choose import choose, require_installed

    async def answered() -> None:
        choice = choose(model, environ)
        require_installed(choice)
        once = replace(settings.retry, tries=1)
        provider = build_provider(choice, replace(settings, environ=environ, retry=once, fallback_model=None))
        try:
            hello: JsonObject = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
            await complete(provider, Request(model=choice.model, messages=[hello], max_tokens=CHECK_TOKENS))
        finally:
            await provider.close()

    try:
        asyncio.run(answered())
    except NacreError as error:
        return str(error)
    print(f"{model} answers")
    return ""


def _choose_memory(dialog: Dialog, settings: Settings, changes: InitChanges) -> None:
    print(
        "\nMay nacre remember? Memories are Markdown files; `nacre memory` lists, changes and forgets them."
    )
    modes = list(MEMORY)
    now = 2 if not settings.memory.is_on else 1 if settings.extract.mode == "suggest" else 0
    chosen = modes[dialog.choose("number", list(MEMORY.values()), now)]
    if chosen == modes[now]:
        return
    if chosen == "no":
        changes.set_value(("autoMemoryEnabled",), False)
        return
    changes.remove_value(("autoMemoryEnabled",))
    changes.set_value(("extract", "mode"), "auto" if chosen == "yes" else "suggest")


def _offer_claude_code(dialog: Dialog, changes: InitChanges) -> None:
    from shutil import which

    from nacre.integrations.claude_code.input import client_home

    home = client_home(os.environ)
    if which("claude") is None and not (home / "settings.json").exists():
        return
    print(printable(f"\nClaude Code is here ({home})."))
    question = "Let both use one memory? It adds hooks to Claude Code's settings and copies memories there."
    if not dialog.agrees(question, default=False):
        return
    from nacre.cli.install.install import install_for_user

    if install_for_user() == 0:
        changes.note_claude_code()


def _offer_completion(dialog: Dialog, environ: Mapping[str, str], changes: InitChanges) -> None:
    shell = Path(environ.get("SHELL", "")).name
    if shell not in SHELLS:
        return
    files = completion_files(shell, environ, changes.home)
    if all(one.is_done for one in files):
        return
    places = " and ".join(str(one.path) for one in files)
    print()
    if dialog.agrees(f"Complete commands of nacre in {shell} with Tab? Writes {places}.", default=True):
        for one in files:
            changes.write(one.path, one.text, is_block=one.is_block)


def _undo(changes: InitChanges) -> int:
    if changes.has_claude_code:
        from nacre.cli.install.install import uninstall_for_user

        uninstall_for_user()
    for line in changes.undo():
        print(printable(line))
    return 0
