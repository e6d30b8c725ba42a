"""Shared memory in a git remote, through a bare repository of nacre's own.

The user's git settings say how to reach the remote (keys, proxies, stored passwords).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from nacre.clock import SYSTEM_CLOCK, Clock
from nacre.errors import StoreError
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
from nacre.store import disk
from nacre.tools.git import SECONDS, GitResult, run_git

TEAM_BRANCH = "nacre-team-memory"
THEIRS = "refs/nacre/theirs"
OURS = "refs/nacre/ours"
MAX_LISTING = 8_388_608
"""Maximum bytes of a listing: ten thousand long names. A tree can be made that lists without end."""
UNNAMED = "nacre <nacre@localhost>"
"""The author if git has no name of the user."""

_ROW = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(\d{1,18}|-)\t(.*)", re.DOTALL)
_FILE_MODES = (b"100644", b"100755")
_BROKEN = ("corrupt", "bad object", "unable to read", "not a git repository", "did not send all necessary")
"""Errors of git for a repository damaged by a power cut; nacre's is only a cache."""
_BUSY = ("cannot lock ref", "failed to update ref", "incorrect old value", "reference already exists")
"""Errors of a remote during another push."""


class GitRemote:
    """One branch of a git remote, which has an address."""

    def __init__(
        self,
        address: str,
        repository: Path,
        *,
        branch: str,
        clock: Clock = SYSTEM_CLOCK,
        seconds: float = SECONDS,
    ) -> None:
        # Of a team the record names the address alone, as earlier versions wrote it.
        self.address = address if branch == TEAM_BRANCH else f"{address}#{branch}"
        self._url = address
        self._branch = f"refs/heads/{branch}"
        self._repository = repository
        self._clock = clock
        self._seconds = seconds

    async def pull(self) -> RemoteSnapshot:
        for is_last in (False, True):
            await self._prepare()
            fetched = await self._git(
                "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                "--", self._url, f"+{self._branch}:{THEIRS}",
            )  # fmt: skip
            if is_last or not fetched.code or not any(word in fetched.err for word in _BROKEN):
                break
            shutil.rmtree(self._repository, ignore_errors=True)
        if "couldn't find remote ref" in fetched.err.casefold():
            return RemoteSnapshot()
        if fetched.code:
            raise StoreError(
                f"the remote of this memory cannot be reached ({fetched.message}); nothing is lost"
            )
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
            "--recurse-submodules=no", "--", self._url, f"{commit}:{self._branch}",
        )  # fmt: skip
        if not pushed.code:
            return True
        said = f"{pushed.out.decode(errors='replace')} {pushed.err}"
        # For any message: if the branch has moved, another push came first.
        if any(word in said for word in _BUSY) or (await self.pull()).version != base.version:
            return False
        raise StoreError(f"the remote of this memory takes no push ({pushed.message}); nothing is lost")

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
                f"the remote of this memory holds {len(files):,} memories; at most {MAX_FILES:,} are read"
            )
        known = {}
        try:
            if known_version:
                known = parse_known((await self._contents({known_version}))[known_version])
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
        asked = await self._git("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")
        who = asked.out.decode(errors="replace")
        name = who.rpartition("> ")[0] + ">" if "> " in who else UNNAMED
        parts = [
            f"commit {OURS}\ncommitter {name} {self._clock.now().timestamp():.0f} +0000\n".encode(),
            b"data %d\n%s\n" % (len(reason.encode()), reason.encode()),
            f"from {parent}\n".encode() if parent else b"",
        ]
        for file in sorted(changes):
            data = changes[file]
            # Names with control characters were refused before.
            quoted = '"' + file.replace("\\", "\\\\").replace('"', '\\"') + '"'
            if data is None:
                parts.append(f"D {quoted}\n".encode())
            else:
                parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (quoted.encode(), len(data), data))
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
            raise StoreError(f"the copy of the remote was broken ({ran.message}); try again")
        return ran.out

    async def _git(self, *arguments: str, stdin: bytes = b"", limit: int | None = None) -> GitResult:
        # Given explicitly: git must not search for a repository around this one if it is gone.
        where = f"--git-dir={self._repository}"
        run = run_git if limit is None else partial(run_git, limit=limit)
        return await run(self._repository, where, *arguments, stdin=stdin, seconds=self._seconds)


def _rows(listing: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and objection of every entry of a tree."""
    for found in filter(None, map(_ROW.fullmatch, listing.split(b"\0"))):
        mode, kind, version, size, name = found.groups()
        try:
            file = name.decode()
        except UnicodeDecodeError:
            yield ascii(os.fsdecode(name)), "", "has a name that is not UTF-8"
            continue
        why = ""
        if mode == b"120000":
            why = "is a symlink; only files are shared"
        elif kind != b"blob" or mode not in _FILE_MODES:
            why = "is another repository; only files are shared"
        elif size == b"-":
            why = "has no size in the listing of git"
        elif file == KNOWN_FILE and int(size) > MAX_KNOWN_BYTES:
            why = f"is {int(size):,} bytes, which is too many"
        elif file.endswith(SUFFIX):
            why = size_objection(int(size))
        yield file, version.decode(), why
