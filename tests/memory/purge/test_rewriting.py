"""A file is changed as a whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from nacre.memory.purge.home import ChangedMeanwhileError, rewrite


def upper(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    yield from ((line, line.upper() if b"b" in line else line) for line in source)


def test_changed_lines_take_their_place_and_mode_and_time_stay(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\nb\r\n\xff b")
    path.chmod(0o640)
    os.utime(path, ns=(10**18, 10**18))
    assert rewrite(path, upper)
    assert path.read_bytes() == b"a\nB\r\n\xff B"
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_mtime_ns) == (0o640, 10**18)
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_a_file_in_which_nothing_differs_stays_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\n")
    before = path.stat()
    assert not rewrite(path, upper)
    assert path.stat().st_ino == before.st_ino
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_a_line_that_comes_meanwhile_is_never_lost(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"b\n")

    def slow(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
        yield from upper(source)
        with path.open("ab") as other:
            other.write(b"late\n")

    with pytest.raises(ChangedMeanwhileError):
        rewrite(path, slow)
    assert path.read_bytes() == b"b\nlate\n"
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_a_failure_halfway_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"b\n")

    def broken(source: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
        yield from upper(source)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        rewrite(path, broken)
    assert path.read_bytes() == b"b\n"
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"b\n")
    (tmp_path / "log").symlink_to("real")
    with pytest.raises(OSError, match="symbolic links"):
        rewrite(tmp_path / "log", upper)
    assert (tmp_path / "real").read_bytes() == b"b\n"
