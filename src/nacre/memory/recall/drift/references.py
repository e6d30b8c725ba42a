"""Finds what a memory names of a project: paths, symbols, flags, variables and commands (R12, M20).

Precision comes first: a word of prose that is taken for a name would be reported as gone. Outside of
backticks only what cannot be prose counts. A sentence about something removed or planned is ignored. Pure;
letters are ASCII, so that Chinese may be next to a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from nacre.memory.recall.drift.known_names import (
    CODE_ENDINGS,
    DOMAINS,
    ENDINGS,
    LIBRARIES,
    MEDIA_TYPES,
    PLAIN_FILES,
    PROSE_ENDINGS,
    WORDS,
)

ReferenceKind: TypeAlias = Literal["path", "symbol", "flag", "variable", "command"]
NamedReference: TypeAlias = tuple[ReferenceKind, str]
"""A reference in a text: its kind and its text."""

MAX_REFERENCES = 64
"""References of one memory that are checked; a text with more is a listing."""
MAX_TEXT = 100_000
"""Characters of a text that are read; of a memory at most a few thousand are attached."""
MAX_CHARS = 200
"""A longer name or command is ignored."""
MIN_CALL = 3
"""Shorter names before parentheses are mathematics: `f()`, `g()`."""

_FENCE = re.compile(r"[ \t]{0,8}(`{3,}|~{3,})[ \t]*([\w+-]*)")
_SHELLS = frozenset({"bash", "console", "sh", "shell", "zsh"})
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+(?:\n(?!\s*\n)[^`\n]+)?)\1(?!`)")
_NOISE = re.compile(
    r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s`>)\]]+"  # addresses
    r"|\bwww\.[^\s`>)\]]+"
    r"|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+"  # mail
    r"|\[\[[^\[\]\n]{0,200}\]\]"  # links between memories
    r"|(?<=\])\([^()\s]{0,300}\)"  # the target of a link
)
"""All repetitions are bounded, so that a text takes one pass."""
_SENTENCE = re.compile(r"[。；！？;\n]|[.!?](?=\s|$)")
_NOT_THERE = re.compile(
    r"(?<![\w./-])(?:removed|deleted|dropped|gone|no longer|renamed|retired|deprecated|obsolete"
    r"|(?:does|do)(?: not|n't) exist|not yet|planned|used to be|formerly)(?![\w/-]|\.\w)"
    r"|已(?:经)?(?:删|移除|废弃|弃用|重命名|改名)|删掉了|删除了|移除了|不再|不存在|尚未|还没有|计划",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"[<>{}*?\[\]|…]|\.\.\.|\bpath/to\b|\byour[-_]|\b(?:foo|bar|baz|xxx|yyy|example)/|\bfilename\b|N{3}|Y{4}|X{3}|/(?:foo|bar|baz|xxx)\b|\$"
)
_ENDING = "|".join(sorted(ENDINGS, key=lambda one: (-len(one), one)))
_EDGE = r"(?<![A-Za-z0-9_./@~$%+\\:-])"
_AFTER = r"(?![A-Za-z0-9_/@\\(-]|\.[A-Za-z0-9_])"
_LINE = r"(?:(?::|#L)(\d{1,7})(?:[-:–]L?\d{1,7})?)?"
_PROSE_PATH = re.compile(
    rf"{_EDGE}((?:\.{{1,2}}/|/)?(?:[A-Za-z0-9_.@+-]+/)*[A-Za-z0-9_.@+-]*[A-Za-z0-9_]\.(?:{_ENDING})){_LINE}{_AFTER}"
)
_WHOLE_PATH = re.compile(r"(\.{0,2}/?(?:[\w.@+-]+/)*[\w.@+-]+/?)" + _LINE)
_NODE = re.compile(r"([\w./+-]+\.[A-Za-z0-9]+)::([A-Za-z_][\w:]*)(?:\[[^\]]*\])?", re.ASCII)
_PROSE_CALL = re.compile(r"(?<![\w./$-])([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)\(\)", re.ASCII)
_PROSE_DOTTED = re.compile(r"(?<![\w./@$-])([A-Z][A-Za-z0-9]+\.[a-z_][A-Za-z0-9_]*)(?![\w./@-])", re.ASCII)
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SYMBOL = re.compile(rf"({_NAME}(?:(?:\.|::|#|->){_NAME})*)(\([^`]*\))?", re.ASCII)
_SHAPED = re.compile(
    r"[A-Za-z0-9]_[A-Za-z0-9]|^_+[a-z][a-z0-9]{2}|[a-z0-9][A-Z]|[A-Z][A-Z][a-z]{2}", re.ASCII
)
"""An underscore, or a capital after a small letter, which no word of prose has."""
_FLAG = re.compile(r"(?<![\w/-])(--[a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w-])", re.ASCII)
_VARIABLE = re.compile(r"(?<![\w./-])\$?\{?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\}?(?![\w(./-])", re.ASCII)
_SET_SPAN = re.compile(r"\$\{?[A-Z]|(?:export )?[A-Z][A-Z0-9_]*=", re.ASCII)
_ABOUT_SETTING = re.compile(r"\benv\b|environment|variable|\bexport\b|环境变量|变量", re.IGNORECASE)

Need: TypeAlias = Literal["target", "script", "recipe", "task", "file", "module", "program"]
"""What a command needs: a target of a Makefile, a script of package.json, a recipe, a task, a file …"""

_PYTHONS = frozenset("python python3 py pypy3".split())
_INTERPRETERS = frozenset("bash dash fish ksh node deno ruby perl php sh source tsx ts-node zsh".split())
_SCRIPT_RUNNERS = frozenset("bun npm pnpm yarn".split())
_PREFIXES = frozenset("sudo time env nice exec command".split())
_ENVIRONMENTS = frozenset("uv poetry pdm hatch pipenv rye".split())
"""With `run`, these start a command in a project's environment."""
_EXTERNAL = frozenset(
    "apt apt-get aws awk az brew bundle cargo cat cd chmod chown clear cp curl dig docker"
    " docker-compose dotnet echo export find fzf gcloud gem gh git glab go gradle grep gunzip head"
    " heroku helm hg jq kill kubectl less ln ls mkdir mv mvn nano npx open pip pip3 pipx podman psql"
    " rails rg rm rsync scp sed ssh ssh-add systemctl tail tar terraform tmux touch tree uvx vercel vi"
    " vim wget which winget wsl xargs yes zip unzip".split()
)
"""Programs that belong to no project; their arguments are not checked."""
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


def references_in(text: str, root: Path | None = None) -> tuple[NamedReference, ...]:
    """Return the references of a text in order, each once; absolute paths only below the root."""
    text, places = _without_fences(text[:MAX_TEXT])
    text = _NOISE.sub(_blank, text)
    for begin, end in _sentences(text):
        places.extend(_in_sentence(text[begin:end], begin))
    found: dict[NamedReference, None] = {}
    for _, (kind, name) in sorted(places, key=lambda one: one[0]):
        placed = _placed(name, root) if kind == "path" else name
        if placed and len(placed) <= MAX_CHARS:
            found.setdefault((kind, placed))
    return tuple(found)[:MAX_REFERENCES]


def line_of(path: str) -> tuple[str, int]:
    """Return a path and its line number; 0 without one."""
    whole = re.fullmatch(r"(.+?)(?::|#L)(\d{1,7})", path)
    return (whole[1], int(whole[2])) if whole else (path, 0)


def parts_of(symbol: str) -> tuple[str, ...]:
    """Return the names of a symbol: `Agent.run` has two."""
    return tuple(part for part in re.split(r"\.|::|#|->", symbol) if part)


def _without_fences(text: str) -> tuple[str, list[tuple[int, NamedReference]]]:
    """Return the text with code blocks blanked out, and the commands of shell blocks."""
    lines: list[str] = []
    commands: list[tuple[int, NamedReference]] = []
    closing = ""
    is_shell = False
    place = 0
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line)
        if closing:
            if fence and fence[1].startswith(closing) and line.strip() == fence[1]:
                closing = ""
            elif is_shell:
                commands.extend((place, one) for one in _commands(line))
        elif fence:
            closing = fence[1]
            is_shell = fence[2].lower() in _SHELLS
        else:
            lines.append(line)
            place += len(line)
            continue
        lines.append(" " * (len(line) - 1) + "\n")
        place += len(line)
    return "".join(lines), commands


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the range of each sentence; text in backticks is not split."""
    hidden = _SPAN.sub(lambda span: "\0" * len(span[0]), text)
    begin = 0
    for stop in _SENTENCE.finditer(hidden):
        yield begin, stop.start()
        begin = stop.end()
    yield begin, len(text)


def _in_sentence(sentence: str, begin: int) -> Iterator[tuple[int, NamedReference]]:
    prose = _SPAN.sub(_blank, sentence)
    if _NOT_THERE.search(prose):
        return
    about_setting = bool(_ABOUT_SETTING.search(prose))
    for span in _SPAN.finditer(sentence):
        inside = " ".join(span[2].split())
        for one in _in_span(inside, about_setting=about_setting):
            yield begin + span.start(), one
    yield from _in_prose(prose, begin)


def _in_prose(prose: str, begin: int) -> Iterator[tuple[int, NamedReference]]:
    for path in _PROSE_PATH.finditer(prose):
        if _is_path(path[1], shown=False):
            yield begin + path.start(), ("path", _with_line(path))
    prose = _PROSE_PATH.sub(_blank, prose)
    for call in _PROSE_CALL.finditer(prose):
        if len(call[1]) >= MIN_CALL and call[1] not in WORDS:
            yield begin + call.start(), ("symbol", call[1])
    for dotted in _PROSE_DOTTED.finditer(prose):
        if _SHAPED.search(dotted[1]) and dotted[1].rpartition(".")[2] not in DOMAINS | ENDINGS:
            yield begin + dotted.start(), ("symbol", dotted[1])
    for flag in _FLAG.finditer(prose):
        yield begin + flag.start(), ("flag", flag[1])
    for variable in _VARIABLE.finditer(prose):
        yield begin + variable.start(), ("variable", variable[1])


def _in_span(inside: str, *, about_setting: bool) -> Iterator[NamedReference]:
    """Yield the references of one piece in backticks, all of one kind."""
    if len(inside) > MAX_CHARS:
        return
    if inside.startswith("--") or _SET_SPAN.match(inside):
        yield from (("flag", flag[1]) for flag in _FLAG.finditer(inside))
        yield from (("variable", name[1]) for name in _VARIABLE.finditer(inside))
        if " " not in inside or inside.startswith(("--", "export ")):
            return
    if node := _NODE.fullmatch(inside):
        yield "path", node[1]
        yield from (("symbol", part) for part in node[2].split("::") if part)
        return
    if (path := _WHOLE_PATH.fullmatch(inside)) and _is_path(path[1], shown=True):
        yield "path", _with_line(path)
        return
    if symbol := _SYMBOL.fullmatch(inside):
        yield from _symbol(symbol[1], is_called=symbol[2] is not None, about_setting=about_setting)
        return
    yield from _commands(inside)


def _symbol(name: str, *, is_called: bool, about_setting: bool) -> Iterator[NamedReference]:
    if name in WORDS or (len(name) < MIN_CALL and not _SHAPED.search(name)):
        return
    if about_setting and _VARIABLE.fullmatch(name):
        yield "variable", name
    elif is_called or any(_SHAPED.search(part) for part in parts_of(name)) or "::" in name:
        yield "symbol", name


def _commands(line: str) -> Iterator[NamedReference]:
    for command in simple_commands(line):
        if command_of(command) is not None and not _PLACEHOLDER.search(command):
            yield "command", command


def _is_path(path: str, *, shown: bool) -> bool:
    """Whether a text is a path; outside of backticks only with a known extension."""
    first, _, rest = path.removeprefix("./").partition("/")
    name = path.rstrip("/").rpartition("/")[2]
    ending = name.rpartition(".")[2] if "." in name.strip(".") else ""
    if _PLACEHOLDER.search(path) or not any(sign.isalpha() for sign in name):
        return False
    if rest and (first.rpartition(".")[2] in DOMAINS and "." in first.strip(".")):
        return False
    if not rest and (name.lower() in LIBRARIES or (ending == "js" and name[0].isupper() and not shown)):
        return False
    if path.startswith("@") or "//" in path:
        return False
    if ending in ENDINGS or name in PLAIN_FILES:
        return _is_file(path, name, ending, shown=shown)
    # A folder ends with a slash, or has several parts that are no list of choices.
    return shown and bool(rest or path.endswith("/")) and _is_folder(path, first)


def _is_file(path: str, name: str, ending: str, *, shown: bool) -> bool:
    if "/" in path or shown or name in PLAIN_FILES:
        # `.py` alone is an extension, `.env` a file.
        return bool(name.removesuffix(f".{ending}")) or name in PLAIN_FILES
    return len(name) > len(ending) + 2 and (
        ending in CODE_ENDINGS | PROSE_ENDINGS
        or "-" in name
        or "_" in name
        or ending in {"json", "toml", "yaml", "yml"}
    )


def _is_folder(path: str, first: str) -> bool:
    parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
    if first in MEDIA_TYPES or not parts:
        return False
    if any(re.search(r"[a-z][A-Z]", part) for part in parts) or all(part.isupper() for part in parts):
        return False
    return all(re.fullmatch(r"[\w.@+-]+", part) and not part[0].isdigit() for part in parts)


def _placed(path: str, root: Path | None) -> str:
    """Return a path relative to the root; empty when it is outside."""
    if not path.startswith("/"):
        return "" if path.startswith("~") else path.removeprefix("./")
    if root is None:
        return ""
    for start in {str(root), str(root.resolve())}:
        if path.startswith(f"{start}/"):
            return path.removeprefix(f"{start}/")
    return ""


def _with_line(path: re.Match[str]) -> str:
    return f"{path[1]}:{path[2]}" if path[2] else path[1]


def _blank(found: re.Match[str]) -> str:
    """Return blanks of the same length, so that positions stay valid."""
    return "".join("\n" if sign == "\n" else " " for sign in found[0])


@dataclass(frozen=True, slots=True)
class ProjectCommand:
    """What one command needs of the project."""

    need: Need
    name: str
    """The target, script, file, module or program."""
    folder: str = ""
    """The folder of the command, if named (`make -C docs html`)."""
    flags: tuple[str, ...] = ()


def simple_commands(line: str) -> Iterator[str]:
    """Yield the commands of a line without prompts, comments and leading variables."""
    line = re.sub(r"^\s*(?:\$|>|%)\s+", "", line)
    line = re.sub(r"(?:^|\s)#.*$", "", line)
    for piece in re.split(r"\s*(?:&&|\|\||;|\|)\s*", line):
        words = piece.split()
        while words and (re.fullmatch(r"[A-Z_][A-Z0-9_]*=\S*", words[0]) or words[0] in _PREFIXES):
            words.pop(0)
        if words:
            yield " ".join(words)


def command_of(text: str) -> ProjectCommand | None:
    """Parse a command; None when it is no command or needs nothing of the project."""
    words = text.split()
    while words[1:2] == ["run"] and words[0] in _ENVIRONMENTS:
        words = words[2:]
    if len(words) < 2 and not "".join(words).startswith("./"):
        return ProjectCommand("target", "") if words == ["make"] else None
    first = words[0]
    rest = words[1:]
    if first in _EXTERNAL or not all(_is_word(word) for word in words):
        return None
    if _FILE_LIKE.fullmatch(first):
        return ProjectCommand("file", first.removeprefix("./"), flags=_flags(rest))
    if first in _PYTHONS | _INTERPRETERS:
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
    return ProjectCommand("program", first, flags=flags) if flags and _PROGRAM.fullmatch(first) else None


def _is_word(word: str) -> bool:
    return bool(_WORD.fullmatch(word.strip("'\""))) and any(sign.isalnum() for sign in word.lstrip("=<>!"))


def _flags(words: list[str]) -> tuple[str, ...]:
    return tuple(word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z0-9-]+(?:=.*)?", word))


def _without_flags(words: list[str]) -> list[str]:
    """Return the words without flags and their values."""
    kept = []
    skips = False
    for word in words:
        if skips or word.startswith("-") or "=" in word:
            skips = word in _WITH_VALUE
            continue
        kept.append(word)
    return kept


def _named(need: Need, words: list[str], form: re.Pattern[str], *, folder: str = "") -> ProjectCommand | None:
    plain = _without_flags(words)
    if not plain:
        return None
    return ProjectCommand(need, plain[0], folder=folder) if form.fullmatch(plain[0]) else None


def _script(words: list[str]) -> ProjectCommand | None:
    plain = _without_flags(words)
    if plain[:1] in (["run"], ["run-script"]):
        plain = plain[1:]
    elif not plain or plain[0] not in _INSTEAD_OF_RUN:
        return None
    return ProjectCommand("script", plain[0]) if plain and _SCRIPT.fullmatch(plain[0]) else None


def _interpreted(words: list[str]) -> ProjectCommand | None:
    """`python tool.py`, `bash x.sh`, `python -m package.module`."""
    if words[:1] == ["-m"] and len(words) > 1:
        is_module = re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", words[1])
        return ProjectCommand("module", words[1], flags=_flags(words[2:])) if is_module else None
    plain = _without_flags(words)
    if plain and _FILE_LIKE.fullmatch(plain[0]) and not words[0].startswith(("-c", "-e")):
        return ProjectCommand("file", plain[0].removeprefix("./"), flags=_flags(words))
    return None
