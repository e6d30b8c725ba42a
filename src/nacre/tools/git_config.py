"""Check whether git may read a repository without a question.

The files of a repository can make git start programs, or print files from elsewhere, even on `git status`.
Git itself reports which repository it finds and which settings it reads: its files are not parsed here.
"""

from __future__ import annotations

import fnmatch
import itertools
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from nacre.tools.git import LIST_SETTINGS, GitResult, ask_git, settings_by_scope

MAX_REPOSITORIES = 30
"""Submodules, also nested, that are checked for one line; with more, the user is asked."""

MAX_ENTRIES = 100_000
"""Files and directories of a git directory that are checked; with more, the user is asked."""
MAX_INDEXES = 100
"""Indexes of which the submodules and directories are cached."""
HISTORY_SECONDS = 3.0
"""For a search of all commits, before the user is asked; 1,000 commits take about 0.1 s."""
SETTLED_SECONDS = 2.0
"""The content of a file is not cached before it has this age: until then it can change without a new time."""

_HARMLESS_KEYS = """
    advice.* am.keepcr author.* branch.*.* color.* column.* commit.gpgsign commit.template commit.verbose
    committer.* core.abbrev core.autocrlf core.bare core.bigfilethreshold core.checkstat core.commentchar
    core.commitgraph core.compression core.eol core.filemode core.fscache core.fsync core.fsyncmethod
    core.ignorecase core.logallrefupdates core.longpaths core.multipackindex core.precomposeunicode
    core.preloadindex core.protecthfs core.protectntfs core.quotepath core.repositoryformatversion
    core.safecrlf core.sharedrepository core.sparsecheckout core.sparsecheckoutcone core.splitindex
    core.symlinks core.trustctime core.untrackedcache core.warnambiguousrefs core.whitespace core.worktree
    diff.*.binary diff.*.funcname diff.*.wordregex diff.*.xfuncname diff.algorithm diff.colormoved
    diff.context diff.guitool diff.ignoresubmodules diff.mnemonicprefix diff.noprefix diff.renamelimit
    diff.renames diff.tool diff.wordregex extensions.objectformat extensions.refstorage
    extensions.relativeworktrees extensions.worktreeconfig feature.experimental feature.manyfiles
    fetch.parallel fetch.prune fetch.prunetags fetch.recursesubmodules fetch.showforcedupdates
    fetch.unpacklimit fetch.writecommitgraph gc.auto gc.autodetach gitflow.* gpg.format gui.*
    http.*.extraheader hub.* i18n.* index.skiphash index.sparse index.threads index.version
    init.defaultbranch lfs.*.access lfs.*.locksverify lfs.repositoryformatversion log.abbrevcommit log.date
    log.decorate log.excludedecoration log.follow log.mailmap log.showroot maintenance.auto
    maintenance.strategy merge.conflictstyle merge.ff merge.guitool merge.renamelimit merge.renames
    merge.stat merge.tool pack.threads pack.usebitmaps pack.usesparse pack.writereverseindex pull.ff
    pull.rebase push.autosetupremote push.default push.followtags push.recursesubmodules rebase.autosquash
    rebase.autostash rebase.updaterefs receive.autogc remote.*.fetch remote.*.followremotehead
    remote.*.gh-resolved remote.*.glab-resolved remote.*.mirror remote.*.prune remote.*.prunetags
    remote.*.push remote.*.pushurl remote.*.skipdefaultupdate remote.*.skipfetchall remote.*.tagopt
    remote.*.url remote.pushdefault rerere.autoupdate rerere.enabled status.aheadbehind status.branch
    status.relativepaths status.renames status.short status.showstash status.showuntrackedfiles
    submodule.*.active submodule.*.branch submodule.*.ignore submodule.*.url submodule.active svn-remote.*
    tag.gpgsign user.* versionsort.suffix
"""
"""Settings of a repository with which a command that only reads starts no program and reads no other file.

The value of `core.worktree` is checked by itself: see `_layout_problem`. `branch.sort` and `tag.sort` are
not among them: a sort by signature starts gpg.
"""
_OVERRIDDEN_KEYS = """
    core.alternaterefscommand core.askpass core.fsmonitor core.fsmonitorhookversion core.hookspath
    core.pager core.sshcommand credential.* diff.submodule extensions.partialclone http.* pager.*
    remote.*.partialclonefilter remote.*.promisor ssh.variant status.submodulesummary submodule.recurse
    url.*.insteadof url.*.pushinsteadof
"""
"""Settings without effect in a line that only reads: git then uses other values, no pager and no remote."""


def _compiled(keys: str) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, keys.split())))


_HARMLESS = _compiled(_HARMLESS_KEYS)
_HARMLESS_IF_OVERRIDDEN = _compiled(_HARMLESS_KEYS + _OVERRIDDEN_KEYS)
_PROOF = "core.hookspath"
"""Listed as an override by a git that takes settings from the environment, which needs version 2.31."""
_NO_REPOSITORY = "fatal: not a git repository"
_SPECIAL = re.compile(r"[*?[{\\]")
_SUBMODULE_MODE = "160000"
_PASSED_OVER = re.compile("hooks|objects/[0-9a-f]{2}|(?:worktrees/[^/]+/)?modules")
"""Not searched for links: hooks are not run, an object is named by the hash of its content, and a submodule
that is checked out is checked by itself."""
_HOOK = "hooks/post-index-change"
"""In a line that also writes, the one hook that a reading command runs: `git status` may update the index."""


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


@dataclass(frozen=True, slots=True)
class _Index:
    """What the index of a repository names."""

    submodules: tuple[str, ...]
    folders: frozenset[str]


_Stamp = tuple[int, int, int, int, int]
_INDEXES: dict[Path, tuple[_Stamp, _Index]] = {}


def repository_problem(
    place: Path, roots: Sequence[Path], *, is_grep: bool = False, only_reads: bool = True
) -> str:
    """Return why git may not run here without a question; empty if it may or there is no repository.

    `roots` are the directories whose files may be read without a question. Submodules are checked, because
    git runs in them, too. `git grep` needs one more check: it follows a link in place of a tracked directory.
    `only_reads` is off for a line that also writes: git then runs hooks and with settings of the repository.
    """
    waiting = [place]
    seen = set[Path]()
    try:
        while waiting:
            at = waiting.pop()
            repository, keys, is_overridden = _discover_with_settings(at)
            if repository is None or repository.folder in seen:
                continue
            seen.add(repository.folder)
            is_overridden = is_overridden and only_reads
            harmless = _HARMLESS_IF_OVERRIDDEN if is_overridden else _HARMLESS
            if problem := _layout_problem(repository, roots, with_hook=not is_overridden):
                return problem
            if problem := next((key for key in keys if not harmless.match(key)), ""):
                return problem
            index = _index(repository)
            if is_grep and (link := _linked_directory(repository, index)):
                return f"{link} is a link, and files in it are tracked"
            places = (repository.top / name for name in index.submodules)
            waiting += [one for one in places if os.path.lexists(one / ".git")]
            if len(seen) + len(waiting) > MAX_REPOSITORIES:
                return f"more than {MAX_REPOSITORIES} submodules"
    except _UnreadableError as error:
        return str(error)
    return ""


def tracked_file(place: Path, patterns: Iterable[str], root: Path, *, or_untracked: bool = False) -> str:
    """Return where the index or a commit may have a file that one of these rules matches; empty if nowhere.

    With `or_untracked`, every rule about files below the root matches. The rules are widened: they match in
    any directory and in any case. If git takes too long, they match.
    """
    wanted = {wide for pattern in patterns for wide in _widened(pattern, root)}
    if not wanted or or_untracked:
        return "files that are not tracked" if wanted else ""
    specs = [f":(top,glob,icase){one}" for one in sorted(wanted)]
    history = ("log", "--all", "--reflog", "--full-history", "--max-count=1", "--format=commit %h")
    try:
        with ThreadPoolExecutor(1) as beside:
            commit = beside.submit(ask_git, place, *history, "--", *specs, seconds=HISTORY_SECONDS)
            listed = ask_git(place, "ls-files", "--full-name", "--", *specs)
        found = [listed, commit.result()]
    except (OSError, TimeoutError):
        return "its history"
    if any(one.code for one in found):
        return "" if all(one.err.startswith(_NO_REPOSITORY) for one in found) else "its history"
    return next((os.fsdecode(one.out).partition("\n")[0] for one in found if one.out), "")


def _widened(pattern: str, root: Path) -> Iterator[str]:
    """Yield globs of git that match at least what the pattern of a Read rule matches below the root."""
    if pattern.startswith(("//", "~/")):
        whole = Path(os.path.expanduser(pattern.replace("//", "/", 1)))  # noqa: PTH111  # a pattern is no path
        fixed = Path(*itertools.takewhile(lambda part: not _SPECIAL.search(part), whole.parts))
        if fixed.is_relative_to(root):
            pattern = os.path.relpath(whole, root)
        elif root.is_relative_to(fixed):
            pattern = whole.name
        else:
            return
    parts = [part for part in re.sub(r"\{.*\}", "*", pattern).split("/") if part not in {"", "."}]
    # Only `*` and `?` mean the same to git.
    plain = "/".join("*" if re.search(r"[][{}\\!]", part) else part for part in parts)
    yield from (f"**/{plain}", f"**/{plain}/**")


def known_repository(place: Path) -> _Repository | None:
    """Return the repository around a directory; None if there is none, or its layout is not one of git's."""
    try:
        found = _discover(place)
        if found is None or not place.is_relative_to(found.top):
            return None
        dot_git = found.top / ".git"
        is_known = not dot_git.is_symlink() and _is_known_layout(found, dot_git, (found.top,))
    except (_UnreadableError, OSError):
        return None
    return found if is_known else None


def _discover_with_settings(place: Path) -> tuple[_Repository | None, list[str], bool]:
    """Return the repository of a directory, its own settings, and whether nacre's settings override them."""
    if not place.is_dir():
        return None, [], False
    with ThreadPoolExecutor(1) as beside:
        listing = beside.submit(_git, place, *LIST_SETTINGS)
        repository = _discover(place)
        listed = listing.result()
    if repository is None:
        return None, [], False
    own, overriding = settings_by_scope(_checked(listed))
    return repository, own, _PROOF in overriding


def _discover(place: Path) -> _Repository | None:
    found = _git(place, "rev-parse", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
    if found.code and found.err.startswith(_NO_REPOSITORY):
        return None
    lines = os.fsdecode(found.out).split("\n")
    if found.code or len(lines) != len(("folder", "common", "top", "end")):
        raise _UnreadableError(found.message if found.code else str(place))
    folder, common, top = (Path(os.path.realpath(place / line)) for line in lines[:-1])
    return _Repository(top, folder, common)


def _layout_problem(repository: _Repository, roots: Sequence[Path], *, with_hook: bool) -> str:
    """Return what in the git directory may lead git elsewhere or is run by it; empty if nothing."""
    dot_git = repository.top / ".git"
    try:
        if dot_git.is_symlink() or not _is_known_layout(repository, dot_git, roots):
            return f"{dot_git} is not laid out by git init, clone, worktree or submodule"
        for link in _links(repository):
            return f"{link} is a link"
    except OSError as error:
        raise _UnreadableError(str(error)) from error
    for name in ("objects/info/alternates", *([_HOOK] if with_hook else [])):
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


def _linked_directory(repository: _Repository, index: _Index) -> str:
    """Return a directory of tracked files that is reached through a symbolic link; empty if none."""
    places = (repository.top / folder for folder in index.folders)
    return next((str(place) for place in places if os.path.realpath(place) != str(place)), "")


def _index(repository: _Repository) -> _Index:
    """Return what the index names; listed by git again whenever its file has changed."""
    path = repository.folder / "index"
    before = _stamp(path)
    cached = _INDEXES.get(path)
    if cached is not None and cached[0] == before:
        return cached[1]
    rows = os.fsdecode(_checked(_git(repository.top, "ls-files", "--stage", "-z"))).split("\0")
    entries = [(about, name) for about, _, name in (row.partition("\t") for row in rows if row)]
    index = _Index(
        submodules=tuple({name: None for about, name in entries if about.startswith(_SUBMODULE_MODE)}),
        folders=frozenset(name.rpartition("/")[0] for _, name in entries),
    )
    # A shared index holds entries in another file.
    is_whole = not any(repository.folder.glob("sharedindex.*")) and "GIT_INDEX_FILE" not in os.environ
    if before is not None and before == _stamp(path) and is_whole:
        while len(_INDEXES) >= MAX_INDEXES:
            _INDEXES.pop(next(iter(_INDEXES)), None)
        _INDEXES[path] = (before, index)
    return index


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes with the content of a file; None if it is missing or has changed just now.

    Only the system sets the time of the last change of an inode, so that a program cannot restore it.
    """
    try:
        status = path.lstat()
    except OSError:
        return None
    if abs(time.time() - status.st_ctime) < SETTLED_SECONDS:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _checked(result: GitResult) -> bytes:
    if result.code:
        raise _UnreadableError(result.message)
    return result.out


def _git(place: Path, *arguments: str) -> GitResult:
    try:
        return ask_git(place, *arguments)
    except (OSError, TimeoutError) as error:
        raise _UnreadableError(str(error)) from error
