"""Commands in text: what each needs of a project, and whether the project has it; nothing is run (R12)."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from nacre.memory.recall.drift.tree_files import RealFolders, WorkingTree, read_inside

Need: TypeAlias = Literal["target", "script", "recipe", "task", "file", "module", "program"]
"""What a command needs: a target of a Makefile, a script of package.json, a recipe, a task, a file …"""

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
"""Prefixes that run a command in a project's environment."""
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


def is_command(text: str) -> bool:
    """Whether a text is a command that needs something of a project."""
    return command_of(text) is not None


def command_of(text: str) -> ProjectCommand | None:
    """Parse a command; None when it is no command or needs nothing of the project."""
    words = text.split()
    while tuple(words[:2]) in _RUN_PREFIXES:
        words = words[2:]
    if len(words) < 2 and not "".join(words).startswith("./"):
        return ProjectCommand("target", "") if words == ["make"] else None
    first = words[0]
    rest = words[1:]
    if first in _EXTERNAL or not all(_is_word(word) for word in words):
        return None
    if _FILE_LIKE.fullmatch(first):
        return ProjectCommand("file", first.removeprefix("./"), flags=_flags(rest))
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


MAX_BYTES = 500_000
"""A larger Makefile or package.json is generated."""
MAX_MANIFESTS = 200
"""Files of one kind that are read."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile")
_TASKFILES = ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml")
_RULE = re.compile(r"^([^\s:=#][^:=#\n]*?)\s*:(?![=:])", re.MULTILINE)
_OPEN_ENDED = re.compile(r"^[-s]?include\b|^[\w-]*%[\w-]*\s*:|^\$[({]\w+[)}]\s*:", re.MULTILINE)
"""Makefiles with targets that cannot be listed: included, by pattern, or computed."""
_RECIPE = re.compile(r"^@?([A-Za-z_][\w-]*)[^\n:=]*:(?!=)", re.MULTILINE)
_ALIAS = re.compile(r"^alias\s+([\w-]+)\s*:=", re.MULTILINE)
_TASK = re.compile(r"^ {2}['\"]?([A-Za-z_][\w:.-]*)['\"]?:", re.MULTILINE)
IsThere = Callable[[str], bool | None]


class ProjectCommands:
    """The commands that one tree offers; each kind of file is read on first use."""

    def __init__(self, tree: WorkingTree, is_there: IsThere) -> None:
        self._tree = tree
        self._is_there = is_there
        self._plain = RealFolders(tree.root)

    def offers(self, command: ProjectCommand) -> bool | None:
        """Whether a command can be run; None when the tree cannot tell."""
        match command.need:
            case "target":
                return self._makes(command.name, command.folder)
            case "script":
                return command.name in self._scripts if self._manifests else None
            case "recipe":
                texts = [text for _, text in self._texts(_JUSTFILES)]
                names = {name for text in texts for name in _RECIPE.findall(text) + _ALIAS.findall(text)}
                return self._listed(
                    command.name, names, texts, re.compile(r"^(?:import|mod)\b", re.MULTILINE)
                )
            case "task":
                texts = [text for _, text in self._texts(_TASKFILES)]
                names = {name for text in texts for name in _TASK.findall(text)}
                return self._listed(command.name, names, texts, re.compile(r"^includes:", re.MULTILINE))
            case "file":
                return self._is_there(command.name)
            case "module":
                return self._has_module(command.name)
            case "program":
                return self._has_program(command.name) or None

    def is_ours(self, command: ProjectCommand) -> bool:
        """Whether the program is the project's own, so that its flags are in the project's files."""
        match command.need:
            case "program":
                return command.name in self._programs
            case "file" | "module":
                return bool(self.offers(command))
            case _:
                return False

    def _makes(self, target: str, folder: str) -> bool | None:
        names = [f"{folder.strip('/')}/{name}" for name in _MAKEFILES] if folder else _MAKEFILES
        texts = [text for path, text in self._texts(_MAKEFILES) if not folder or path in names]
        if not texts:
            return False
        if not target:
            return True
        names_there = {one for text in texts for group in _RULE.findall(text) for one in group.split()}
        return self._listed(target, names_there, texts, _OPEN_ENDED)

    def _listed(
        self, name: str, names: set[str], texts: list[str], open_ended: re.Pattern[str]
    ) -> bool | None:
        if name in names:
            return True
        return None if any(open_ended.search(text) for text in texts) else False

    @cached_property
    def _manifests(self) -> list[dict[str, object]]:
        found = []
        for _, text in self._texts(("package.json",)):
            try:
                read = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(read, dict):
                found.append(read)
        return found

    @cached_property
    def _scripts(self) -> set[str]:
        tables = (manifest.get("scripts") for manifest in self._manifests)
        return {str(name) for table in tables if isinstance(table, dict) for name in table}

    @cached_property
    def _programs(self) -> set[str]:
        """Names of the programs that the project installs."""
        found: set[str] = set()
        for manifest in self._manifests:
            bins = manifest.get("bin")
            found |= {str(name) for name in bins} if isinstance(bins, dict) else set()
            found |= {str(manifest.get("name", "")).rpartition("/")[2]} if isinstance(bins, str) else set()
        for _, text in self._texts(("pyproject.toml",)):
            found |= set(_python_scripts(text))
        for _, text in self._texts(("Cargo.toml",)):
            found |= set(re.findall(r'^name\s*=\s*"([\w-]+)"', text, re.MULTILINE))
        return found

    def _has_program(self, name: str) -> bool:
        listing = self._tree.listing
        in_tree = f"/bin/{name}\n" in listing or f"\nbin/{name}\n" in listing or f"\n{name}\n" in listing
        if name in self._programs or in_tree:
            return True
        # Imported here: a hook waits for recall, and few memories name a command.
        import shutil  # noqa: PLC0415

        return shutil.which(name) is not None

    def _has_module(self, name: str) -> bool | None:
        path = name.replace(".", "/")
        listing = self._tree.listing
        for form in (f"{path}.py\n", f"{path}/__main__.py\n", f"{path}/__init__.py\n"):
            if f"/{form}" in listing or f"\n{form}" in listing:
                return True
        top = path.partition("/")[0]
        is_ours = f"\n{top}/" in listing or f"\nsrc/{top}/" in listing
        return False if is_ours and "/" in path else None

    def _texts(self, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield files of these names and their text, those at the root first."""
        listing = self._tree.listing
        found = list(names)  # at the root they count although git does not know them yet
        for name in names:
            at = listing.find(f"{name}\n")
            while at > 0 and len(found) < MAX_MANIFESTS:
                path = listing[listing.rfind("\n", 0, at) + 1 : at + len(name)]
                if path.rpartition("/")[2] == name:
                    found.append(path)
                at = listing.find(f"{name}\n", at + 1)
        for path in sorted(set(found), key=lambda one: (one.count("/"), one)):
            is_ours = self._plain.has(posixpath.dirname(path))
            data = read_inside(self._tree.root, path, MAX_BYTES) if is_ours else None
            if data is not None:
                yield path, data.decode(errors="replace")


def _python_scripts(text: str) -> Iterator[str]:
    import tomllib  # noqa: PLC0415 - as above

    try:
        read = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    project = read.get("project")
    tool = read.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    for table in (project, poetry):
        for key in ("scripts", "gui-scripts"):
            names = table.get(key) if isinstance(table, dict) else None
            yield from map(str, names) if isinstance(names, dict) else ()
