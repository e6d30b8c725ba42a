"""Which commands a tree offers: targets, scripts, recipes, modules, files (R12). Nothing is ever run."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cached_property

from nacre.memory.recall.drift.commands import Command
from nacre.memory.recall.drift.tree_files import Plain, Tree, read_inside

MAX_BYTES = 500_000
"""A larger Makefile or package.json was not written by people."""
MAX_MANIFESTS = 200
"""Files of a kind that are looked into; a monorepo with more has its scripts at its root, too."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile")
_TASKFILES = ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml")
_RULE = re.compile(r"^([^\s:=#][^:=#\n]*?)\s*:(?![=:])", re.MULTILINE)
_OPEN_ENDED = re.compile(r"^[-s]?include\b|^[\w-]*%[\w-]*\s*:|^\$[({]\w+[)}]\s*:", re.MULTILINE)
"""Makefiles with plain targets that cannot be read off: included, by pattern, or computed."""
_RECIPE = re.compile(r"^@?([A-Za-z_][\w-]*)[^\n:=]*:(?!=)", re.MULTILINE)
_ALIAS = re.compile(r"^alias\s+([\w-]+)\s*:=", re.MULTILINE)
_TASK = re.compile(r"^ {2}['\"]?([A-Za-z_][\w:.-]*)['\"]?:", re.MULTILINE)
IsThere = Callable[[str], bool | None]


class ProjectCommands:
    """Answers for one tree; each kind of file is read once, when first asked for."""

    def __init__(self, tree: Tree, is_there: IsThere) -> None:
        self._tree = tree
        self._is_there = is_there
        self._plain = Plain(tree.root)

    def offers(self, command: Command) -> bool | None:
        """Whether it can be run; none when the tree cannot tell."""
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

    def is_ours(self, command: Command) -> bool:
        """Whether the program is the project's own, so that its flags stand in the project's files."""
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
        """What the project installs under a name of its own."""
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
        # Loaded where a memory names a command: recall is what a person waits for in a hook.
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
        """Files of these names, those at the root first, and their text."""
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
