"""Git worktrees of agents: the last commit on a separate branch, outside the main checkout.

The main checkout does not change: neither its files nor its index nor its HEAD. A changed worktree is never
removed; an unchanged one is removed with its branch. After a crash, a record of it is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from nacre import prompts
from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, StoreError, ToolError
from nacre.messages.blocks import JsonObject
from nacre.process import is_alive, start_time
from nacre.store import disk
from nacre.store.home import canonical, slug
from nacre.tools.git import LIST_SETTINGS, OFFLINE, GitResult, environment, run_git, settings_by_scope

BRANCH = "nacre/agent-"
SHORT = 8
"""Characters of an agent's id in the names of its branch and folder."""
SHOWN_COMMIT = 12
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*", re.ASCII)
PROMPT = prompts.load(__package__, "worktree")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWorktree:
    """A worktree that is kept because it has changes."""

    path: Path
    branch: str
    commits: int = 0
    files: int = 0
    """Number of changed or new files that are not committed."""
    why: str = ""
    """Reason that replaces the numbers, if these do not give it."""

    @property
    def description(self) -> str:
        """One line about it."""
        parts = [(self.commits, "new commit"), (self.files, "changed file")]
        said = [f"{count:,} {name}{'s' * (count != 1)}" for count, name in parts if count]
        return f"{self.path} (branch {self.branch}): {self.why or ' and '.join(said)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverWorktree:
    """A worktree whose process has ended."""

    record: WorktreeRecord
    left: KeptWorktree | None
    """Its changes; None: there are none, and it may be removed."""


async def make(
    repository: Path, agent: str, *, home: Path, session: str = "", clock: Clock = SYSTEM_CLOCK
) -> Worktree:
    """Create a worktree of the repository around a directory; raises `ToolError` if that fails."""
    if not _ID.fullmatch(agent):
        raise ToolError(f"{agent!r} cannot name a worktree; use letters and digits")
    git = WorktreeRepository(repository)
    base = await _head_commit(git)
    tree = Worktree(
        path=await _place(git, home) / f"agent-{agent[:SHORT]}",
        branch=f"{BRANCH}{agent[:SHORT]}",
        base=base,
        repository=Path(canonical(repository)),
        inside=await _inside(git),
    )
    has_branch = not (await git.run("show-ref", "--verify", "--quiet", f"refs/heads/{tree.branch}")).code
    if has_branch or tree.path.exists() or record_path(tree.path).exists():
        raise ToolError(f"there is a worktree or a branch {tree.branch} already; start the agent once more")
    record = our_record(tree, session, clock)
    try:
        disk.make_folder(tree.path.parent)
        # The record first, so that everything created afterwards can be found.
        write_record(record)
        bare = ("worktree", "add", "--quiet", "--no-track", "--no-checkout", "-b", tree.branch)
        await git.output(*bare, str(tree.path), base)
        # Git must read its settings there: some are conditional, and name programs.
        await git.output("reset", "--hard", "--quiet", at=tree.path)
        write_record(replace(record, state="ready"))
    except OSError as error:
        await _removed(git, tree)
        raise ToolError(disk.explain(error, tree.path)) from error
    except BaseException:
        await _removed(git, tree)
        raise
    return tree


def worktree_prompt(tree: Worktree) -> str:
    """Return the prompt about the worktree for its agent."""
    return prompts.render(PROMPT, path=str(tree.path), branch=tree.branch, base=tree.base[:SHOWN_COMMIT])


def take_over(tree: Worktree, *, session: str = "", clock: Clock = SYSTEM_CLOCK) -> None:
    """Make this process the owner of a worktree that an earlier one left."""
    try:
        write_record(replace(our_record(tree, session, clock), state="ready"))
    except OSError as error:
        raise ToolError(disk.explain(error, record_path(tree.path))) from error


async def finish(tree: Worktree) -> KeptWorktree | None:
    """Remove an unchanged worktree with its branch, or return what it has."""
    left = await changes(tree)
    if left is None:
        await _removed(WorktreeRepository(tree.repository), tree)
    return left


async def leftovers(home: Path, *, clock: Clock = SYSTEM_CLOCK) -> list[LeftoverWorktree]:
    """Return the worktrees of ended processes; runs git only if there are any."""
    found = [one for one in await asyncio.to_thread(lambda: [*records(home)]) if one.is_ownerless]
    return [LeftoverWorktree(record=one, left=await _changes_of(one, clock)) for one in found]


async def tidy(
    home: Path, *, clock: Clock = SYSTEM_CLOCK
) -> tuple[list[LeftoverWorktree], list[LeftoverWorktree]]:
    """Remove unchanged worktrees of ended processes; return the removed and the kept ones."""
    found = await leftovers(home, clock=clock)
    for one in found:
        if one.left is None:
            await _removed(WorktreeRepository(one.record.tree.repository), one.record.tree)
    gone = [one for one in found if one.left is None]
    return gone, [one for one in found if one.left is not None]


async def changes(tree: Worktree) -> KeptWorktree | None:
    """Return what a worktree or its branch has that is nowhere else, without changing it."""
    git = WorktreeRepository(tree.repository)
    stays = KeptWorktree(path=tree.path, branch=tree.branch)
    try:
        tip = await git.run("rev-parse", "--verify", "--quiet", f"refs/heads/{tree.branch}^{{commit}}")
        if tip.code not in {0, 1}:
            return replace(stays, why=f"its repository cannot be read: {tip.message}")
        stands = os.fsdecode(tip.out).strip() or tree.base
        stays = replace(stays, commits=await _counted(git, tree.base, stands))
        if tree.path.exists():
            stays = await _inspect(git, tree, stays)
    except (ToolError, OSError) as error:
        return replace(stays, why=f"it is not known what has changed: {error}")
    return stays if stays.commits or stays.files or stays.why else None


async def _changes_of(record: WorktreeRecord, clock: Clock) -> KeptWorktree | None:
    """Like `changes`; a worktree that was never ready has no changes."""
    tree = record.tree
    if record.state == "ready":
        return await changes(tree)
    with contextlib.suppress(ToolError, OSError):
        entry = await _entry(WorktreeRepository(tree.repository), tree)
        lock = (entry / "index.lock").stat() if entry else None
        # The process that requested it has ended, but git outlives a killed parent.
        if lock is not None and clock.now().timestamp() - lock.st_mtime < SECONDS:
            return KeptWorktree(path=tree.path, branch=tree.branch, why="git is still laying it out")
    return None


async def _inspect(git: WorktreeRepository, tree: Worktree, stays: KeptWorktree) -> KeptWorktree:
    entry = await _entry(git, tree)
    if entry is None or not _leads_to(tree.path / ".git", entry):
        is_empty = not any(tree.path.iterdir())
        return stays if is_empty else replace(stays, why="it is no worktree any more, and files are in it")
    if (entry / "locked").exists():
        return replace(stays, why="it is locked")
    head = await git.run("symbolic-ref", "--quiet", "HEAD", at=tree.path)
    is_elsewhere = os.fsdecode(head.out).strip() != f"refs/heads/{tree.branch}"
    # Includes files that the index is set to assume unchanged.
    refreshed = await git.run("update-index", "--really-refresh", at=tree.path)
    status = await git.output(
        "status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames",
        at=tree.path,
    )  # fmt: skip
    files = len([line for line in status.split("\0") if line]) or int(refreshed.code != 0)
    return replace(stays, files=files, why="it stands elsewhere than on its branch" if is_elsewhere else "")


async def _removed(git: WorktreeRepository, tree: Worktree) -> None:
    """Remove an unchanged worktree: rename it first, then delete it.

    If this is interrupted, the record still exists and a second call removes the rest. The branch is deleted
    only if it is still at its first commit.
    """
    doomed = tree.path.with_name(f".{tree.path.name}.gone")
    await asyncio.to_thread(shutil.rmtree, doomed, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        tree.path.rename(doomed)
    await asyncio.to_thread(shutil.rmtree, doomed, ignore_errors=True)
    with contextlib.suppress(ToolError):
        entry = await _entry(git, tree)
        if entry is not None:
            await asyncio.to_thread(shutil.rmtree, entry, ignore_errors=True)
            _remove_empty(entry.parent)
        await git.run("update-ref", "--no-deref", "-d", f"refs/heads/{tree.branch}", tree.base)
    record_path(tree.path).unlink(missing_ok=True)
    _remove_empty(tree.path.parent)


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not empty, or missing
        folder.rmdir()


async def _entry(git: WorktreeRepository, tree: Worktree) -> Path | None:
    """Return git's administrative folder of a worktree."""
    common = Path(git.directory, await git.output("rev-parse", "--git-common-dir"))
    for entry in sorted((common / "worktrees").glob(f"{tree.path.name}*")):
        if _leads_to(entry / "gitdir", tree.path / ".git"):
            return entry
    return None


def _leads_to(file: Path, place: Path) -> bool:
    """Whether a file of git names this path, absolute or relative to the file."""
    try:
        named = os.fsdecode(file.read_bytes()).removeprefix("gitdir:").strip()
    except OSError:
        return False
    return os.path.realpath(file.parent / named) == os.path.realpath(place)


async def _head_commit(git: WorktreeRepository) -> str:
    ran = await git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if ran.code == 0:
        return os.fsdecode(ran.out).strip()
    looked = await git.run("rev-parse", "--git-dir")
    if looked.code:
        raise ToolError(f"a worktree needs a git repository, and there is none: {looked.message}")
    raise ToolError(f"the repository at {git.directory} has no commit yet; commit something first")


async def _place(git: WorktreeRepository, home: Path) -> Path:
    """Return the folder for worktrees of this repository."""
    common = canonical(git.directory / await git.output("rev-parse", "--git-common-dir"))
    return Path(canonical(home)) / FOLDER / slug(common.removesuffix("/.git"))


async def _inside(git: WorktreeRepository) -> str:
    """Return the path of the directory in its checkout; empty in a bare repository."""
    ran = await git.run("rev-parse", "--show-prefix")
    return "" if ran.code else os.fsdecode(ran.out).removesuffix("\n").rstrip("/")


async def _counted(git: WorktreeRepository, base: str, tip: str) -> int:
    """Return the number of commits on the branch, at least one if it has moved."""
    if base == tip:
        return 0
    ran = await git.run("rev-list", "--count", f"{base}..{tip}")
    return max(1, int(ran.out)) if not ran.code else 1


SECONDS = 600.0
"""Timeout of one command: the checkout of a large repository takes time."""
NO_GIT = "git is not installed, and a worktree needs it; install it, or go on without a worktree"
TOO_OLD = (
    "the repository has filters of its own, and this git cannot switch them off; install git 2.31 or later"
)
_PROBE = "nacre.probe"
"""A setting that shows whether this git takes settings from the environment."""
_FILTER = "filter."
_KEYS = {"smudge": "", "clean": "", "process": "", "required": "false"}
"""The settings of a filter, with the values of an absent one."""


class WorktreeRepository:
    """A git repository, given any directory in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._without: dict[Path, dict[str, str]] = {}

    async def run(self, *arguments: str, at: Path | None = None) -> GitResult:
        """Run a git command in the repository or a worktree, and return its result."""
        place = at or self.directory
        if place not in self._without:
            listed = await self._ran(
                place, *LIST_SETTINGS, variables={**OFFLINE, **environment({}, {_PROBE: "true"})}
            )
            self._without[place] = _without(listed)
        return await self._ran(place, *arguments, variables={**OFFLINE, **self._without[place]})

    async def output(self, *arguments: str, at: Path | None = None) -> str:
        """Return the output of a git command; raises `ToolError` if it fails."""
        ran = await self.run(*arguments, at=at)
        if ran.code:
            raise ToolError(f"git {arguments[0]} failed in {at or self.directory}: {ran.message}")
        return os.fsdecode(ran.out).removesuffix("\n")

    async def _ran(self, directory: Path, *arguments: str, variables: Mapping[str, str]) -> GitResult:
        try:
            return await run_git(directory, *arguments, seconds=SECONDS, variables=variables)
        except ConfigError as error:
            raise ToolError(NO_GIT) from error
        except (StoreError, OSError) as error:
            raise ToolError(f"git {arguments[0]} failed in {directory}: {error}") from error


def _without(listed: GitResult) -> dict[str, str]:
    """Return environment variables that disable the filters of a repository's own settings."""
    own, overriding = settings_by_scope(listed.out)
    filters = {name.rpartition(".")[0] for name in own if name.startswith(_FILTER) and name.count(".") > 1}
    if filters and _PROBE not in overriding:
        raise ToolError(TOO_OLD)
    return environment({}, {f"{one}.{key}": value for one in sorted(filters) for key, value in _KEYS.items()})


FOLDER = "worktrees"
"""In nacre's home: a folder for each repository, with its worktrees and their records."""
MAX_BYTES = 65_536
"""Maximum size of a record; nacre writes none that is longer."""
_NAME = "agent-*.json"
State: TypeAlias = Literal["making", "ready"]
"""`making`: no agent can have worked in it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """The worktree of an agent."""

    path: Path
    branch: str
    base: str
    """The commit it was created from."""
    repository: Path
    """The directory it was created for, in the repository's main checkout or another one."""
    inside: str = ""
    """Path of that directory in its checkout."""

    @property
    def cwd(self) -> Path:
        """The working directory in the worktree."""
        place = self.path / self.inside
        return place if place.is_dir() else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeRecord:
    """A worktree and the process that created it."""

    tree: Worktree
    state: State = "making"
    session: str = ""
    pid: int = 0
    start: str = ""
    """Start time of the process; tells it from a later one with the same pid."""
    host: str = ""
    at: datetime

    @property
    def is_ownerless(self) -> bool:
        """Whether its process has ended; unknown, so False, for another machine."""
        return self.host == socket.gethostname() and not is_alive(self.pid, self.start)


def our_record(tree: Worktree, session: str, clock: Clock) -> WorktreeRecord:
    """Return the record of a worktree that this process creates."""
    pid = os.getpid()
    host = socket.gethostname()
    return WorktreeRecord(
        tree=tree, session=session, pid=pid, start=start_time(pid), host=host, at=clock.now()
    )


def record_path(path: Path) -> Path:
    """Return the path of the record of a worktree."""
    return path.with_name(f"{path.name}.json")


def write_record(record: WorktreeRecord) -> None:
    """Write a record atomically."""
    tree = record.tree
    path = record_path(record.tree.path)
    facts: JsonObject = {
        "state": record.state,
        "branch": tree.branch,
        "base": tree.base,
        "repository": str(tree.repository),
        "inside": tree.inside,
        "session": record.session,
        "pid": record.pid,
        "processStart": record.start,
        "host": record.host,
        "at": record.at.isoformat(),
    }
    data = json.dumps(facts, indent=1).encode() + b"\n"
    disk.replace_file(path, data, temp_name=f".{path.name}.tmp")


def records(home: Path) -> Iterator[WorktreeRecord]:
    """Yield all records below a home, also of running processes; invalid ones are skipped."""
    for path in sorted((Path(os.path.realpath(home)) / FOLDER).glob(f"*/{_NAME}")):
        found = _read(path)
        if found is not None:
            yield found


def _read(path: Path) -> WorktreeRecord | None:
    try:
        with os.fdopen(disk.open_regular(path, os.O_RDONLY), "rb") as file:
            facts = json.loads(file.read(MAX_BYTES))
        return _parsed(path.with_suffix(""), facts)
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


def _parsed(path: Path, facts: JsonObject) -> WorktreeRecord:
    state = str(facts["state"])
    at = datetime.fromisoformat(str(facts["at"]))
    pid = facts["pid"]
    words = {key: str(facts[key]) for key in ("branch", "base", "repository", "inside")}
    if state not in get_args(State) or type(pid) is not int or not words["branch"]:
        raise ValueError("no record")
    return WorktreeRecord(
        tree=Worktree(path=path, repository=Path(words.pop("repository")), **words),
        state=cast("State", state),
        session=str(facts["session"]),
        pid=pid,
        start=str(facts["processStart"]),
        host=str(facts["host"]),
        at=at if at.tzinfo else at.replace(tzinfo=UTC),
    )
