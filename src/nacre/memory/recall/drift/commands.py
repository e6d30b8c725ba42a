"""Command lines as texts have them: which pieces are commands, and what of a project each one needs (R12)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Need: TypeAlias = Literal["target", "script", "recipe", "task", "file", "module", "program"]
"""What must be there for a command to work: of a Makefile, package.json, justfile, Taskfile; or a file."""

_PYTHONS = frozenset("python python3 py pypy3".split())
_SHELLS = frozenset("bash dash fish ksh node deno ruby perl php sh source tsx ts-node zsh".split())
_SCRIPT_RUNNERS = frozenset("bun npm pnpm yarn".split())
_PREFIXES = frozenset("sudo time env nice exec command".split())
_RUN_PREFIXES = {
    ("uv", "run"),
    ("poetry", "run"),
    ("pdm", "run"),
    ("hatch", "run"),
    ("pipenv", "run"),
    ("rye", "run"),
}
"""Two words that run the command behind them in a project's environment."""
_FOREIGN = frozenset(
    "apt apt-get aws awk az brew bundle cargo cat cd chmod chown clear cp curl dig docker"
    " docker-compose dotnet echo export find fzf gcloud gem gh git glab go gradle grep gunzip head"
    " heroku helm hg jq kill kubectl less ln ls mkdir mv mvn nano npx open pip pip3 pipx podman psql"
    " rails rg rm rsync scp sed ssh ssh-add systemctl tail tar terraform tmux touch tree uvx vercel vi"
    " vim wget which winget wsl xargs yes zip unzip".split()
)
"""Programs that are nobody's project; what they are called with is not judged."""
_PROGRAM = re.compile(r"[a-z][a-z0-9_.-]{1,40}")
_FILE_LIKE = re.compile(
    r"(?:\./)?[\w.@+-]+(?:/[\w.@+-]+)+|\./[\w.@+-]+|[\w.@+-]+\.(?:sh|py|js|mjs|ts|rb|pl|php)"
)
_WORD = re.compile(r"[\w./:@=,+~%^-]+")
_TARGET = re.compile(r"[A-Za-z0-9][\w./-]*")
_SCRIPT = re.compile(r"[A-Za-z0-9@][\w:./@-]*")
_WITH_VALUE = frozenset(
    "-C -f -j --prefix -w --workspace --filter --cwd --directory --makefile --file".split()
)
_INSTEAD_OF_RUN = frozenset({"test", "start", "stop", "restart"})
"""Scripts that npm runs without the word `run`."""


@dataclass(frozen=True, slots=True)
class Command:
    """What one command line asks of the project."""

    need: Need
    name: str
    """The target, script, file, module or program."""
    folder: str = ""
    """Where it is run, when the line says so (`make -C docs html`)."""
    flags: tuple[str, ...] = ()


def simple_commands(line: str) -> Iterator[str]:
    """The commands of a line one by one, without prompts, comments and variables set in front."""
    line = re.sub(r"^\s*(?:\$|>|%)\s+", "", line)
    line = re.sub(r"(?:^|\s)#.*$", "", line)
    for piece in re.split(r"\s*(?:&&|\|\||;|\|)\s*", line):
        words = piece.split()
        while words and (re.fullmatch(r"[A-Z_][A-Z0-9_]*=\S*", words[0]) or words[0] in _PREFIXES):
            words.pop(0)
        if words:
            yield " ".join(words)


def is_command(text: str) -> bool:
    """Whether words are a command line that has to do with a project."""
    return command_of(text) is not None


def command_of(text: str) -> Command | None:
    """What a command asks of the project; none when it is no command, or another program's affair."""
    words = text.split()
    while tuple(words[:2]) in _RUN_PREFIXES:
        words = words[2:]
    if len(words) < 2 and not "".join(words).startswith("./"):
        return Command("target", "") if words == ["make"] else None
    first = words[0]
    rest = words[1:]
    if first in _FOREIGN or not all(_is_word(word) for word in words):
        return None
    if _FILE_LIKE.fullmatch(first):
        return Command("file", first.removeprefix("./"), flags=_flags(rest))
    if first in _PYTHONS | _SHELLS:
        return _interpreted(rest)
    if first in {"make", "gmake"}:
        folder = next((rest[at + 1] for at, word in enumerate(rest[:-1]) if word == "-C"), "")
        return _named("target", rest, _TARGET, folder=folder)
    if first in {"just", "task"}:
        return _named("recipe" if first == "just" else "task", rest, _SCRIPT)
    if first in _SCRIPT_RUNNERS:
        return _script(rest)
    flags = _flags(rest)
    # Without a flag, two words between backticks may be anything.
    return Command("program", first, flags=flags) if flags and _PROGRAM.fullmatch(first) else None


def _is_word(word: str) -> bool:
    return bool(_WORD.fullmatch(word.strip("'\""))) and any(sign.isalnum() for sign in word.lstrip("=<>!"))


def _flags(words: list[str]) -> tuple[str, ...]:
    return tuple(word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z0-9-]+(?:=.*)?", word))


def _plain(words: list[str]) -> list[str]:
    """Without flags and the values of those that have one."""
    kept = []
    skips = False
    for word in words:
        if skips or word.startswith("-") or "=" in word:
            skips = word in _WITH_VALUE
            continue
        kept.append(word)
    return kept


def _named(need: Need, words: list[str], form: re.Pattern[str], *, folder: str = "") -> Command | None:
    plain = _plain(words)
    if not plain:
        return None
    return Command(need, plain[0], folder=folder) if form.fullmatch(plain[0]) else None


def _script(words: list[str]) -> Command | None:
    plain = _plain(words)
    if plain[:1] in (["run"], ["run-script"]):
        plain = plain[1:]
    elif not plain or plain[0] not in _INSTEAD_OF_RUN:
        return None
    return Command("script", plain[0]) if plain and _SCRIPT.fullmatch(plain[0]) else None


def _interpreted(words: list[str]) -> Command | None:
    """`python tool.py`, `bash x.sh`, `python -m package.module`."""
    if words[:1] == ["-m"] and len(words) > 1:
        is_module = re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", words[1])
        return Command("module", words[1], flags=_flags(words[2:])) if is_module else None
    plain = _plain(words)
    if plain and _FILE_LIKE.fullmatch(plain[0]) and not words[0].startswith(("-c", "-e")):
        return Command("file", plain[0].removeprefix("./"), flags=_flags(words))
    return None
