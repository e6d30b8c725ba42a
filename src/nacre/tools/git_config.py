"""Check whether git may read a repository without a question, and define the settings it then runs with.

The files of a repository can make git start programs, or print files from elsewhere, even on `git status`.
Git itself reports which repository it finds and which settings it reads: its files are not parsed here.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from nacre.process import run_sync

SECONDS = 10.0
"""For one command that lists settings or names; for a slower repository the user is asked."""
MAX_REPOSITORIES = 30
"""Submodules, also nested, that are checked for one line; with more, the user is asked."""

MAX_ENTRIES = 100_000
"""Files and directories of a git directory that are checked; with more, the user is asked."""

NO_PROGRAMS: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "",
    "submodule.recurse": "false",
}
"""Settings that override those of a repository, for commands that must not start its programs."""
EVERY_LINE: Mapping[str, str] = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}
"""Settings for every Bash line: a bare repository hidden in a directory is not used unless it is named."""
READ_ONLY: Mapping[str, str] = {
    **EVERY_LINE,
    **NO_PROGRAMS,
    "diff.submodule": "short",
    "status.submoduleSummary": "false",
}
"""Settings for a line that only reads. `diff.external` is not among them: git fails where it is empty."""
OFFLINE: Mapping[str, str] = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
"""Variables that keep git from any remote, a partial clone's included, and from updates of the index."""

_HARMLESS_KEYS = tuple(
    """
    advice.* author.* branch.* color.* column.* committer.* i18n.* user.*
    core.abbrev core.autocrlf core.bare core.bigfilethreshold core.checkstat core.commentchar core.commitgraph
    core.compression core.eol core.filemode core.fscache core.fsync core.fsyncmethod core.ignorecase
    core.logallrefupdates core.longpaths core.multipackindex core.precomposeunicode core.preloadindex
    core.protecthfs core.protectntfs core.quotepath core.repositoryformatversion core.safecrlf
    core.sharedrepository core.sparsecheckout core.sparsecheckoutcone core.splitindex core.symlinks
    core.trustctime core.untrackedcache core.warnambiguousrefs core.whitespace core.worktree
    commit.gpgsign commit.verbose diff.algorithm diff.colormoved diff.context diff.ignoresubmodules
    diff.mnemonicprefix diff.noprefix diff.renamelimit diff.renames extensions.objectformat
    extensions.refstorage extensions.relativeworktrees extensions.worktreeconfig feature.manyfiles fetch.prune
    fetch.prunetags gc.auto gc.autodetach gpg.format http.*.extraheader index.skiphash index.sparse
    index.threads index.version init.defaultbranch
    lfs.*.access lfs.*.locksverify lfs.repositoryformatversion
    log.abbrevcommit log.date log.decorate log.follow maintenance.auto maintenance.strategy
    merge.conflictstyle merge.ff merge.renamelimit merge.renames pack.threads pull.ff pull.rebase
    push.autosetupremote push.default push.followtags rebase.autosquash rebase.autostash rebase.updaterefs
    remote.*.fetch remote.*.followremotehead remote.*.gh-resolved remote.*.mirror remote.*.prune
    remote.*.prunetags remote.*.push remote.*.pushurl remote.*.skipdefaultupdate remote.*.skipfetchall
    remote.*.tagopt remote.*.url remote.pushdefault rerere.autoupdate rerere.enabled
    status.aheadbehind status.branch status.relativepaths status.renames status.short status.showstash
    status.showuntrackedfiles submodule.*.active submodule.*.branch submodule.*.ignore submodule.*.url
    submodule.active tag.gpgsign tag.sort versionsort.suffix
    """.split()
)
"""Settings of a repository with which a command that only reads starts no program and reads no other file.

The value of `core.worktree` is checked by itself: see `_layout_problem`.
"""

_HARMLESS = re.compile("|".join(map(fnmatch.translate, _HARMLESS_KEYS)))
_OWN_SCOPES = frozenset({"local", "worktree"})
_NO_REPOSITORY = "fatal: not a git repository"
_SUBMODULE_MODE = "160000"
_PASSED_OVER = re.compile("hooks|objects/[0-9a-f]{2}|(?:worktrees/[^/]+/)?modules")
"""Not searched for links: hooks are not run, an object is named by the hash of its content, and a submodule
that is checked out is checked by itself."""
_HOOK = "hooks/post-index-change"
"""The one hook that runs when git only reads: `git status` may update the index."""


class _UnreadableError(Exception):
    """Raised when git cannot read a repository; the message is the reason."""


@dataclass(frozen=True, slots=True)
class _Repository:
    """A repository as git finds it; all paths are real."""

    top: Path
    """The work tree."""
    folder: Path
    """The git directory of this work tree."""
    common: Path
    """The git directory that all work trees of the repository share."""


def environment(environ: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which these git settings override those of every file."""
    given = environ.get("GIT_CONFIG_COUNT", "")
    count = int(given) if given.isdigit() else 0
    named = {
        f"GIT_CONFIG_{part}_{number}": text
        for number, pair in enumerate(settings.items(), start=count)
        for part, text in zip(("KEY", "VALUE"), pair, strict=True)
    }
    return {
        **environ, **named, "GIT_CONFIG_COUNT": str(count + len(settings)), "GIT_TERMINAL_PROMPT": "0"
    }  # fmt: skip


def repository_problem(place: Path, roots: Sequence[Path], *, is_grep: bool = False) -> str:
    """Return why git may not run here without a question; empty if it may or there is no repository.

    `roots` are the directories whose files may be read without a question. Submodules are checked, because
    git runs in them, too. `git grep` needs one more check: it follows a link in place of a tracked directory.
    """
    waiting = [place]
    seen = set[Path]()
    try:
        while waiting:
            repository = _discover(waiting.pop())
            if repository is None or repository.folder in seen:
                continue
            seen.add(repository.folder)
            if problem := _layout_problem(repository, roots) or _settings_problem(repository):
                return problem
            if is_grep and (link := _linked_directory(repository)):
                return f"{link} is a link, and files in it are tracked"
            waiting += _submodules(repository)
            if len(seen) + len(waiting) > MAX_REPOSITORIES:
                return f"more than {MAX_REPOSITORIES} submodules"
    except _UnreadableError as error:
        return str(error)
    return ""


def _discover(place: Path) -> _Repository | None:
    if not place.is_dir():
        return None
    done = _git(place, "rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
    told = os.fsdecode(done.stderr)
    if done.returncode and told.startswith(_NO_REPOSITORY):
        return None
    lines = os.fsdecode(done.stdout).splitlines()
    if done.returncode or len(lines) != len(("folder", "common", "top")):
        raise _UnreadableError(told.partition("\n")[0].removeprefix("fatal: ") or str(place))
    folder, common, top = (Path(os.path.realpath(place / line)) for line in lines)
    return _Repository(top, folder, common)


def _layout_problem(repository: _Repository, roots: Sequence[Path]) -> str:
    """Return what in the git directory may lead git elsewhere or is run by it; empty if nothing."""
    dot_git = repository.top / ".git"
    try:
        if dot_git.is_symlink() or not _is_known_layout(repository, dot_git, roots):
            return f"{dot_git} is not laid out by git init, clone, worktree or submodule"
        for link in _links(repository):
            return f"{link} is a link"
    except OSError as error:
        raise _UnreadableError(str(error)) from error
    for name in ("objects/info/alternates", _HOOK):
        if os.path.lexists(repository.common / name):
            return str(repository.common / name)
    return ""


def _is_known_layout(repository: _Repository, dot_git: Path, roots: Sequence[Path]) -> bool:
    folder = repository.folder
    common = repository.common
    if dot_git.is_dir():
        return folder == common == dot_git
    if not dot_git.is_file():
        return False
    if folder == common:
        # A submodule. Its `core.worktree` may name any directory, so that one must lead back to it.
        is_own = any(map(folder.is_relative_to, roots)) or _belongs_to_outer(repository, roots)
        return is_own and _discover(repository.top) == repository
    # A linked worktree. Its git directory names the one work tree that it is for.
    back = (folder / "gitdir").read_text(errors="surrogateescape").removesuffix("\n")
    return folder.parent == common / "worktrees" and os.path.realpath(folder / back) == str(dot_git)


def _belongs_to_outer(repository: _Repository, roots: Sequence[Path]) -> bool:
    """Return whether a submodule has its git directory in that of the repository around it.

    For a submodule of a linked worktree, that is in the main repository, which may lie outside the roots.
    """
    outer = _discover(repository.top.parent) if any(map(repository.top.is_relative_to, roots)) else None
    if outer is None or not repository.folder.is_relative_to(outer.folder / "modules"):
        return False
    return _is_known_layout(outer, outer.top / ".git", roots)


def _links(repository: _Repository) -> Iterator[str]:
    """Yield symbolic links in the git directory: git prints lines of many files in it."""
    waiting = [repository.common]
    seen = 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for one in entries:
                seen += 1
                below = os.path.relpath(one.path, repository.common)
                if seen > MAX_ENTRIES:
                    raise _UnreadableError(f"{repository.common} holds more than {MAX_ENTRIES:,} files")
                if one.is_symlink() and below != "hooks":
                    yield one.path
                elif one.is_dir(follow_symlinks=False) and not _PASSED_OVER.fullmatch(below):
                    waiting.append(Path(one.path))


def _linked_directory(repository: _Repository) -> str:
    """Return a directory of tracked files that is reached through a symbolic link; empty if none."""
    names = _output(repository.top, "ls-files", "-z")
    places = (repository.top / folder for folder in {name.rpartition("/")[0] for name in names})
    return next((str(place) for place in places if os.path.realpath(place) != str(place)), "")


def _settings_problem(repository: _Repository) -> str:
    """Return the first setting of the repository that is not known to be harmless."""
    listed = _output(repository.top, "config", "--show-scope", "--name-only", "--null", "--list")
    scopes = listed[::2]
    keys = listed[1::2]
    own = [key for scope, key in zip(scopes, keys, strict=False) if scope in _OWN_SCOPES]
    return next((key for key in own if not _HARMLESS.match(key)), "")


def _submodules(repository: _Repository) -> list[Path]:
    """Return the work trees of submodules that are checked out."""
    entries = (entry.partition("\t") for entry in _output(repository.top, "ls-files", "--stage", "-z"))
    places = {repository.top / name for about, _, name in entries if about.startswith(_SUBMODULE_MODE)}
    return [place for place in places if os.path.lexists(place / ".git")]


def _output(place: Path, *arguments: str) -> list[str]:
    done = _git(place, *arguments)
    if done.returncode:
        raise _UnreadableError(os.fsdecode(done.stderr).partition("\n")[0].removeprefix("fatal: "))
    return os.fsdecode(done.stdout).split("\0")


def _git(place: Path, *arguments: str) -> CompletedProcess[bytes]:
    environ = {**environment(os.environ, READ_ONLY), **OFFLINE, "LC_ALL": "C"}
    try:
        return run_sync(["git", *arguments], cwd=place, environ=environ, seconds=SECONDS)
    except (OSError, TimeoutError) as error:
        raise _UnreadableError(str(error)) from error
