"""The store on disk: modes, containment, atomicity, full disks, other processes."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from nacre.errors import OutsideStore, StoreError, VersionConflict
from nacre.store.files import FileStore


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "home" / "root")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_files_and_folders_belong_to_the_owner_alone(store: FileStore) -> None:
    """M27: whatever the umask allows."""
    old = os.umask(0)
    try:
        await store.write("a/b/c", b"x")
        await store.append("a/d", b"x")
        async with store.lock("a/b/c"):
            pass
    finally:
        os.umask(old)
    for path in store.root.rglob("*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


async def test_a_symlink_that_leaves_the_root_is_refused(store: FileStore, tmp_path: Path) -> None:
    """M6: links to files and to folders, reading and writing, and they are not listed."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"keep out")
    (store.root / "file").symlink_to(secret)
    (store.root / "folder").symlink_to(tmp_path)
    for key in ["file", "folder/secret", "folder/new"]:
        with pytest.raises(OutsideStore, match="symlink"):
            await store.read(key)
        with pytest.raises(OutsideStore, match="symlink"):
            await store.write(key, b"x")
        with pytest.raises(OutsideStore, match="symlink"):
            await store.append(key, b"x")
        with pytest.raises(OutsideStore, match="symlink"):
            await store.delete(key)
    assert secret.read_bytes() == b"keep out"
    assert await store.list() == []


async def test_a_dangling_symlink_is_refused_even_inside_the_root(store: FileStore) -> None:
    """M6."""
    (store.root / "nowhere").symlink_to(store.root / "gone")
    for key in ["nowhere", "nowhere/below"]:
        with pytest.raises(OutsideStore, match="points nowhere"):
            await store.write(key, b"x")
    assert await store.list() == []


async def test_a_symlink_inside_the_root_leads_to_its_target(store: FileStore) -> None:
    await store.write("real", b"x")
    (store.root / "alias").symlink_to(store.root / "real")
    await store.write("alias", b"y")
    blob = await store.read("real")
    assert blob is not None
    assert blob.data == b"y"
    assert (store.root / "alias").is_symlink()
    assert [item.key for item in await store.list()] == ["alias", "real"]


async def test_a_loop_of_symlinks_does_not_trap_a_listing(store: FileStore) -> None:
    await store.write("a/b", b"x")
    (store.root / "a" / "again").symlink_to(store.root)
    assert [item.key for item in await store.list()] == ["a/b"]


async def test_a_fifo_is_an_error_and_never_a_wait(store: FileStore) -> None:
    os.mkfifo(store.root / "pipe")
    for call in (store.read("pipe"), store.write("pipe", b"x"), store.append("pipe", b"x")):
        with pytest.raises(StoreError, match="not a regular file"):
            await asyncio.wait_for(call, 5)
    assert await store.list() == []


async def test_what_a_killed_writer_left_is_not_listed_and_goes_with_the_next_write(store: FileStore) -> None:
    """A write killed before its rename leaves the old value and one temporary file, however often."""
    await store.write("k", b"old")
    script = """
        import asyncio, os, sys
        from pathlib import Path
        from nacre.store.files import FileStore
        Path.replace = lambda self, target: os.kill(os.getpid(), 9)
        asyncio.run(FileStore(Path(sys.argv[1])).write("k", b"new"))
    """
    for _ in range(3):
        assert child(script, store.root).returncode == -signal.SIGKILL
    names = sorted(path.name for path in store.root.iterdir())
    assert len([name for name in names if name.startswith(".nacre-tmp-")]) == 1
    blob = await store.read("k")
    assert blob is not None
    assert blob.data == b"old"
    assert [item.key for item in await store.list()] == ["k"]
    await store.write("k", b"newer")
    assert sorted(path.name for path in store.root.iterdir()) == [".locks", "k"]


async def test_a_change_by_another_program_is_a_version_conflict(store: FileStore) -> None:
    version = await store.write("k", b"one")
    times = (store.root / "k").stat()
    (store.root / "k").write_bytes(b"two")
    os.utime(store.root / "k", ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(VersionConflict):
        await store.write("k", b"three", if_version=version)


async def test_a_large_value_has_a_new_version_after_each_write(store: FileStore) -> None:
    big = bytes(2_000_000)
    first = await store.write("k", big)
    second = await store.write("k", b"1" + big, if_version=first)
    assert first != second
    with pytest.raises(VersionConflict):
        await store.write("k", big, if_version=first)


FULL = """
    import asyncio, resource, signal, sys
    sys.dont_write_bytecode = True  # half a compiled file would break every later process
    from pathlib import Path
    from nacre.errors import StoreError
    from nacre.store.files import FileStore
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    async def main():
        store = FileStore(Path(sys.argv[1]))
        await store.append("log", b"whole line\\n")
        await store.write("value", b"old")
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        for call in (store.append("log", b"x" * 8000 + b"\\n"), store.write("value", b"y" * 8000)):
            try:
                await call
            except StoreError as error:
                print(str(error).split(":")[0])
        await store.append("log", b"next\\n")

    asyncio.run(main())
"""


async def test_a_full_disk_leaves_no_torn_line_no_half_value_and_no_temporary_file(store: FileStore) -> None:
    done = child(FULL, store.root)
    assert (done.stdout, done.returncode) == ("disk full\ndisk full\n", 0), done.stderr
    assert (store.root / "log").read_bytes() == b"whole line\nnext\n"
    assert (store.root / "value").read_bytes() == b"old"
    assert sorted(path.name for path in store.root.iterdir()) == [".locks", "log", "value"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tiny tmpfs needs root")
async def test_a_real_full_disk_says_so_and_keeps_what_was_there(tmp_path: Path) -> None:
    mounted = tmp_path / "small"
    mounted.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mounted)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        store = FileStore(mounted / "root")
        await store.append("log", b"whole line\n")
        with pytest.raises(StoreError, match="disk full"):
            await store.append("log", b"x" * 200_000 + b"\n")
        assert (store.root / "log").read_bytes() == b"whole line\n"
        with pytest.raises(StoreError, match="disk full"):
            await store.write("log", b"x" * 200_000)
        assert (store.root / "log").read_bytes() == b"whole line\n"
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


async def test_a_lock_holds_between_processes_and_dies_with_its_holder(store: FileStore) -> None:
    script = """
        import asyncio, sys
        from pathlib import Path
        from nacre.store.files import FileStore

        async def main():
            async with FileStore(Path(sys.argv[1])).lock("name"):
                print("held", flush=True)
                await asyncio.sleep(60)

        asyncio.run(main())
    """
    holder = subprocess.Popen(command(script, store.root), stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match="locked by someone else"):
            async with store.lock("name", timeout=0.1):
                pytest.fail("two processes held one lock")
    finally:
        holder.kill()
        holder.communicate()
    async with store.lock("name", timeout=5):
        pass


async def test_writers_in_two_processes_lose_no_update(store: FileStore) -> None:
    """Compare and swap: every increment of both is in the final number."""
    script = """
        import asyncio, sys
        from pathlib import Path
        from nacre.errors import VersionConflict
        from nacre.store.files import FileStore

        async def main():
            store = FileStore(Path(sys.argv[1]))
            done = 0
            while done < 30:
                blob = await store.read("n")
                number, version = (int(blob.data), blob.version) if blob else (0, "")
                try:
                    await store.write("n", b"%d" % (number + 1), if_version=version)
                    done += 1
                except VersionConflict:
                    pass

        asyncio.run(main())
    """
    both = [subprocess.Popen(command(script, store.root)) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    blob = await store.read("n")
    assert blob is not None
    assert blob.data == b"60"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
async def test_a_read_only_folder_is_an_error_that_says_what_to_check(store: FileStore) -> None:
    (store.root / "shut").mkdir(mode=0o500)
    with pytest.raises(StoreError, match="no permission"):
        await store.write("shut/x", b"x")


def command(script: str, root: Path) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script), str(root)]


def child(script: str, root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(script, root), capture_output=True, text=True, check=False, timeout=60)


async def test_a_cancelled_write_holds_its_lock_until_the_disk_is_done(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next write of the key would share its temporary file with the one still under way."""
    flush, may_flush, is_flushing = os.fsync, threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        is_flushing.set()
        may_flush.wait()
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    first = asyncio.create_task(store.write("key", b"first"))
    await asyncio.to_thread(is_flushing.wait)
    first.cancel()
    second = asyncio.create_task(store.write("key", b"second"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not first.done()
    may_flush.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    blob = await store.read("key")
    assert blob is not None
    assert blob.data == b"second"
