"""Runs git on nacre's own repository: no prompts, no hooks, no programs that settings name, bounded.

The user's git settings apply as far as they say how to reach a remote (keys, proxies, stored passwords);
environment variables that could redirect git are removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import ConfigError, StoreError
from nacre.memory.files.folder import SUFFIX, version_of
from nacre.memory.team.remote import (
    KNOWN_FILE,
    MAX_FILES,
    MAX_KNOWN_BYTES,
    RefusedFile,
    RemoteSnapshot,
    encode_known,
    known_after,
    parse_known,
    size_objection,
)
from nacre.process import ProcessSpec, run
from nacre.store import disk
from nacre.tools.git_config import NO_PROGRAMS

SECONDS = 60.0
"""Maximum seconds of one command: far more than a few pages of text need on a slow network."""
MAX_OUTPUT = 67_108_864
"""Maximum output of one command: far more than a team's memory, and small enough for memory."""
_TOLD_CHARS = 300
"""Maximum characters of git's output in a one-line message."""
_ALLOWED = "file:git:http:https:ssh"
"""Protocols that start no program named in an address, whatever the settings allow."""
_SETTINGS = (
    *(f"{key}={value}" for key, value in NO_PROGRAMS.items()),
    "core.askPass=",
    "credential.interactive=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "push.gpgSign=false",
    "push.followTags=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=30",
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class GitResult:
    """Result of a git command."""

    code: int
    out: bytes
    err: str
    """Without passwords of an address."""

    @property
    def message(self) -> str:
        """The error message of git, in one line."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        wanted = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))] or lines
        text = "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in wanted[:3])
        return text[:_TOLD_CHARS] or f"git ended with code {self.code}"


async def run_git(
    directory: Path,
    *arguments: str,
    stdin: bytes = b"",
    seconds: float = SECONDS,
    limit: int = MAX_OUTPUT,
    variables: Mapping[str, str] | None = None,
) -> GitResult:
    """Run one command in a directory to its end; `StoreError` if it takes too long or prints too much.

    `variables` are added to the environment and take precedence over it.
    """
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    output = bytearray()
    # A file, because ssh in the background would hold a pipe open for hours.
    with tempfile.TemporaryFile() as errors:
        spec = ProcessSpec(
            argv=("git", "--no-pager", *settings, "-C", str(directory), *arguments),
            environ={**_environ(os.environ), **(variables or {})},
            stdin=stdin,
            stderr=errors,
            seconds=seconds,
            max_bytes=limit,
        )
        try:
            ended = await run(spec, output.extend)
        except FileNotFoundError as error:
            raise ConfigError("git is not installed; install it, or share a `folder:/path`") from error
        if ended.why == "timeout":
            raise StoreError(f"git {arguments[0]} took over {seconds:g} s; nothing is lost, try again")
        if ended.exit_code is None:
            raise StoreError(f"git said more than {limit:,} bytes; what lies there is no team's memory")
        errors.seek(0)
        message = _USERINFO.sub("", errors.read(limit).decode(errors="replace"))
        return GitResult(ended.exit_code, bytes(output), message)


def _environ(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") and name not in {"SSH_ASKPASS", "LANGUAGE"}
    }
    return {
        **kept,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": _ALLOWED,
        "GCM_INTERACTIVE": "never",
        "SSH_ASKPASS_REQUIRE": "never",
        "LC_ALL": "C",  # what git says is looked at
    }


BRANCH = "refs/heads/nacre-team-memory"
THEIRS = "refs/nacre/theirs"
OURS = "refs/nacre/ours"
MAX_LISTING = 8_388_608
"""Maximum bytes of a listing: ten thousand long names. A tree can be made that lists without end."""
NOBODY = "nacre <nacre@localhost>"
"""The author if git has no name of the user."""

_ROW = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(\d+|-)\t(.*)", re.DOTALL)
_FILE_MODES = (b"100644", b"100755")
_BROKEN = ("corrupt", "bad object", "unable to read", "not a git repository", "did not send all necessary")
"""Errors of git for a repository damaged by a power cut; nacre's is only a cache."""
_BUSY = ("cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""Errors of a remote during another push."""


class GitRemote:
    """One git remote, by its address."""

    def __init__(
        self, address: str, repository: Path, *, clock: Clock = SYSTEM_CLOCK, seconds: float = SECONDS
    ) -> None:
        self.address = address
        self._repository = repository
        self._clock = clock
        self._seconds = seconds

    async def pull(self) -> RemoteSnapshot:
        await self._prepare()
        fetched = await self._fetch()
        if any(word in fetched.err for word in _BROKEN) and fetched.code:
            shutil.rmtree(self._repository, ignore_errors=True)
            await self._prepare()
            fetched = await self._fetch()
        if "couldn't find remote ref" in fetched.err.casefold():
            return RemoteSnapshot()
        if fetched.code:
            raise StoreError(f"the team's remote cannot be reached ({fetched.message}); nothing is lost")
        commit = await self._checked("rev-parse", "--verify", "--quiet", f"{THEIRS}^{{commit}}")
        return await self._shared(commit.decode().strip())

    async def read(self, shared: RemoteSnapshot, files: Collection[str]) -> Mapping[str, bytes]:
        wanted = {shared.files[file] for file in files if file in shared.files}
        contents = await self._contents(wanted)
        return {file: contents[shared.files[file]] for file in files if shared.files.get(file) in contents}

    async def push(self, base: RemoteSnapshot, changes: Mapping[str, bytes | None], reason: str) -> bool:
        known = known_after(base, {file: version_of(data) for file, data in changes.items()})
        commit = await self._commit(base.version, {**changes, KNOWN_FILE: encode_known(known)}, reason)
        pushed = await self._git(
            "push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
            "--recurse-submodules=no", "--", self.address, f"{commit}:{BRANCH}",
        )  # fmt: skip
        if not pushed.code:
            return True
        said = f"{pushed.out.decode(errors='replace')} {pushed.err}"
        # For any message: if the branch has moved, another push came first.
        if any(word in said for word in _BUSY) or (await self.pull()).version != base.version:
            return False
        raise StoreError(f"the team's remote takes no push ({pushed.message}); nothing is lost")

    async def _prepare(self) -> None:
        """Create a bare repository without hooks, and remove locks of a killed git."""
        if not (self._repository / "HEAD").is_file():
            disk.make_folder(self._repository)
            made = await run_git(
                self._repository, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "."
            )
            if made.code:
                raise StoreError(f"{self._repository} cannot be made ({made.message}); move it away")
        for lock in (*self._repository.glob("*.lock"), *self._repository.glob("refs/nacre/*.lock")):
            lock.unlink(missing_ok=True)

    async def _fetch(self) -> GitResult:
        return await self._git(
            "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--", self.address, f"+{BRANCH}:{THEIRS}",
        )  # fmt: skip

    async def _shared(self, commit: str) -> RemoteSnapshot:
        files: dict[str, str] = {}
        refused: list[RefusedFile] = []
        known_version = ""
        listing = await self._checked("ls-tree", "-r", "-z", "-l", "--full-tree", commit, limit=MAX_LISTING)
        for file, version, why in _rows(listing):
            if file == KNOWN_FILE and not why:
                known_version = version
            elif why:
                refused.append(RefusedFile(file, why))
            elif file.endswith(SUFFIX):
                files[file] = version
        if len(files) > MAX_FILES:
            raise StoreError(
                f"the team's remote holds {len(files):,} memories; at most {MAX_FILES:,} are read"
            )
        known = {}
        try:
            known = (
                parse_known((await self._contents({known_version}))[known_version]) if known_version else {}
            )
        except ValueError as error:
            refused.append(RefusedFile(KNOWN_FILE, str(error)))
        return RemoteSnapshot(version=commit, files=files, known=known, refused=tuple(refused))

    async def _contents(self, versions: Collection[str]) -> dict[str, bytes]:
        """Return blobs by id; listed ones are small."""
        if not versions:
            return {}
        asked = "".join(f"{version}\n" for version in sorted(versions)).encode()
        out = await self._checked("cat-file", "--batch", stdin=asked)
        found: dict[str, bytes] = {}
        at = 0
        while at < len(out):
            end = out.index(b"\n", at)
            version, kind, *size = out[at:end].decode(errors="replace").split(" ")
            at = end + 1
            if kind == "blob":
                length = int(size[0])
                found[version] = out[at : at + length]
                at += length + 1
        return found

    async def _commit(self, parent: str, changes: Mapping[str, bytes | None], reason: str) -> str:
        """Create a commit on the parent that changes these files only; all others stay."""
        who = (await self._git("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")).out.decode(
            errors="replace"
        )
        name = who.rpartition("> ")[0] + ">" if "> " in who else NOBODY
        parts = [
            f"commit {OURS}\ncommitter {name} {self._clock.now().timestamp():.0f} +0000\n".encode(),
            _data(reason.encode()),
            f"from {parent}\n".encode() if parent else b"",
        ]
        for file in sorted(changes):
            data = changes[file]
            quoted = _quoted(file)
            if data is None:
                parts.append(f"D {quoted}\n".encode())
            else:
                parts += [f"M 100644 inline {quoted}\n".encode(), _data(data)]
        with contextlib.suppress(FileNotFoundError):
            (self._repository / OURS).unlink()
        await self._checked("fast-import", "--quiet", "--force", "--done", stdin=b"".join(parts) + b"done\n")
        made = await self._checked("rev-parse", "--verify", "--quiet", f"{OURS}^{{commit}}")
        return made.decode().strip()

    async def _checked(self, *arguments: str, stdin: bytes = b"", limit: int | None = None) -> bytes:
        """Return the output of a command that must not fail; on failure the cache is deleted."""
        ran = await self._git(*arguments, stdin=stdin, limit=limit)
        if ran.code:
            shutil.rmtree(self._repository, ignore_errors=True)
            raise StoreError(f"the copy of the team's remote was broken ({ran.message}); try again")
        return ran.out

    async def _git(self, *arguments: str, stdin: bytes = b"", limit: int | None = None) -> GitResult:
        # Given explicitly: git must not search for a repository around this one if it is gone.
        where = f"--git-dir={self._repository}"
        run = run_git if limit is None else partial(run_git, limit=limit)
        return await run(self._repository, where, *arguments, stdin=stdin, seconds=self._seconds)


def _rows(listing: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and objection of every entry of a tree."""
    for row in listing.split(b"\0"):
        found = _ROW.fullmatch(row)
        if found is None:
            continue
        mode, kind, version, size, name = found.groups()
        try:
            file = name.decode()
        except UnicodeDecodeError:
            yield ascii(os.fsdecode(name)), "", "has a name that is not UTF-8"
            continue
        yield file, version.decode(), _objection(file, mode, kind, size)


def _objection(file: str, mode: bytes, kind: bytes, size: bytes) -> str:
    if mode == b"120000":
        return "is a symlink; only files are shared"
    if kind != b"blob" or mode not in _FILE_MODES:
        return "is another repository; only files are shared"
    if file == KNOWN_FILE:
        return "" if int(size) <= MAX_KNOWN_BYTES else f"is {int(size):,} bytes, which is too many"
    return size_objection(int(size)) if file.endswith(SUFFIX) else ""


def _data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quoted(file: str) -> str:
    """Return a path quoted for fast-import; names with control characters were refused before."""
    return '"' + file.replace("\\", "\\\\").replace('"', '\\"') + '"'
