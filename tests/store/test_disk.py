"""Atomic writes, full disks, and which relative paths are accepted."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import OutsideStore
from nacre.store import disk

REFUSED = [
    "", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", ".", "./a", "a//b", "a/", "a\0b", "a\\b", "..\\x",
    "C:/x", "c:x", "%2e%2e/x", "a/%2E%2e", "a%2fb", "%252e%252e/x", "．．/x", "a／b", "‥/x", "a％2fb",
    "\ud800", "a/.nacre-tmp-1", "x" * 201, "字" * 67,
]  # fmt: skip


@pytest.mark.parametrize("key", REFUSED, ids=ascii)
def test_a_key_that_could_lead_out_is_refused(key: str) -> None:
    """M6: relative, plain, no `..` in any disguise."""
    with pytest.raises(OutsideStore, match="cannot be a key"):
        disk.check_key(key)


@given(key=st.one_of(st.text(max_size=12), st.text("./\\%2ef:a．\0", max_size=10)))
def test_an_accepted_key_stays_below_its_folder(key: str) -> None:
    """M6."""
    try:
        accepted = disk.check_key(key)
    except OutsideStore:
        return
    assert accepted == key
    assert Path(os.path.normpath(Path("/root") / key)).is_relative_to("/root")


def test_a_fifo_is_an_error_and_never_a_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND):
        with pytest.raises(disk.NotRegularError):
            disk.open_regular(tmp_path / "pipe", flags)


def test_a_killed_write_leaves_the_old_value_and_one_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"old")
    script = """
        import os, sys
        from pathlib import Path
        from nacre.store import disk
        Path.replace = lambda self, target: os.kill(os.getpid(), 9)
        disk.replace_file(Path(sys.argv[1]) / "k", b"new", temp_name=".k.tmp")
    """
    for _ in range(3):
        assert child(script, tmp_path).returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == [".k.tmp", "k"]
    assert (tmp_path / "k").read_bytes() == b"old"
    disk.replace_file(tmp_path / "k", b"newer", temp_name=".k.tmp")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"k": b"newer"}


FULL = """
    import os, resource, signal, sys
    sys.dont_write_bytecode = True  # half a compiled file would break every later process
    from pathlib import Path
    from nacre.store import disk
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    folder = Path(sys.argv[1])
    log = disk.open_regular(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    disk.append_whole(log, b"whole line\\n")
    disk.replace_file(folder / "value", b"old", temp_name=".value.tmp")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    for act in (
        lambda: disk.append_whole(log, b"x" * 8000 + b"\\n"),
        lambda: disk.replace_file(folder / "value", b"y" * 8000, temp_name=".value.tmp"),
    ):
        try:
            act()
        except OSError as error:
            print(disk.explain(error, "file").split(":")[0])
    disk.append_whole(log, b"next\\n")
"""


def test_a_full_disk_leaves_no_torn_line_no_half_value_and_no_temporary_file(tmp_path: Path) -> None:
    done = child(FULL, tmp_path)
    assert (done.stdout, done.returncode) == ("disk full\ndisk full\n", 0), done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "log": b"whole line\nnext\n",
        "value": b"old",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tiny tmpfs needs root")
def test_a_real_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    mounted = tmp_path / "small"
    mounted.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mounted)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        disk.replace_file(mounted / "log", b"whole line\n", temp_name=".log.tmp")
        with pytest.raises(OSError, match="No space") as failure:
            disk.replace_file(mounted / "log", b"x" * 200_000, temp_name=".log.tmp")
        assert disk.explain(failure.value, mounted).startswith("disk full")
        assert {path.name: path.read_bytes() for path in mounted.iterdir()} == {"log": b"whole line\n"}
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_a_temporary_file_that_is_removed_before_its_lock_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / ".new"
    lock = fcntl.flock
    removals = iter([temporary])

    def remove_first(descriptor: int, operation: int) -> None:
        for one in removals:
            disk.remove_abandoned([one])
        lock(descriptor, operation)

    monkeypatch.setattr(disk.fcntl, "flock", remove_first)
    descriptor = disk.open_temporary(temporary)
    try:
        assert os.fstat(descriptor).st_ino == temporary.stat().st_ino
        disk.remove_abandoned([temporary])
        assert temporary.exists()
    finally:
        os.close(descriptor)
    disk.remove_abandoned([temporary])
    assert not temporary.exists()


def child(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", textwrap.dedent(script), str(folder)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
