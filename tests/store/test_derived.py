"""The one file of rebuildable values: fingerprints, damage, other processes, deleted bytes."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nacre.store.derived import FORMAT, DerivedCache


@pytest.fixture
def cache(tmp_path: Path) -> DerivedCache:
    return DerivedCache(tmp_path / "home" / "cache" / "scope")


VALUE = {"a": (1, 2.5, None, True, b"\x00", ["x"]), "字": {"deep": "é"}}


def test_a_value_is_returned_for_its_fingerprint_only(cache: DerivedCache) -> None:
    assert cache.get("name", "one") is None
    cache.put("name", VALUE, "one")
    assert cache.get("name", "one") == VALUE
    assert cache.get("name", "two") is None
    assert cache.get("other", "one") is None
    cache.put("name", 2, "two")
    cache.put("odd \udcff", 3)
    assert cache.all() == {"name": ("two", 2), "odd \udcff": ("", 3)}


def test_scopes_are_apart_and_share_one_private_file(cache: DerivedCache) -> None:
    other = DerivedCache(cache.path.parent / "other")
    old = os.umask(0)
    try:
        cache.update({"a": ("", 1), "b": ("", 2)})
        other.put("a", 3)
    finally:
        os.umask(old)
    cache.update({"c": ("", 4)}, removed=["a"])
    assert (cache.all(), other.all()) == ({"b": ("", 2), "c": ("", 4)}, {"a": ("", 3)})
    assert [path.name for path in cache.path.parent.iterdir()] == ["derived.db"]
    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700


def test_reading_creates_nothing(cache: DerivedCache) -> None:
    assert cache.all() == {}
    cache.clear()
    assert not cache.path.parent.exists()


def test_nothing_of_a_cleared_scope_is_left_in_the_file(cache: DerivedCache) -> None:
    """M14b: short values and those that take several pages."""
    other = DerivedCache(cache.path.parent / "other")
    other.put("stays", b"still here")
    cache.update({f"purged-{n}": ("", b"purged words " * n) for n in (1, 2_000)})
    assert b"purged words" in cache.path.read_bytes()
    cache.clear()
    assert b"purged" not in cache.path.read_bytes()
    assert (cache.all(), other.get("stays")) == ({}, b"still here")


def newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute(f"pragma user_version = {FORMAT + 1}")
    db.close()


def other_table(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("drop table value")
        db.execute("create table value (x)")
    db.close()


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def overwritten(path: Path) -> None:
    path.write_bytes(b"no database at all, but longer than its header is" * 100)


@pytest.mark.parametrize("damage", [newer, other_table, torn, overwritten], ids=lambda each: each.__name__)
def test_a_file_that_cannot_be_used_reads_as_empty_and_is_replaced(
    cache: DerivedCache, damage: object
) -> None:
    cache.update({f"n{i}": ("", b"x" * 900) for i in range(50)})
    assert callable(damage)
    damage(cache.path)
    assert cache.get("n1") is None or damage is torn
    cache.put("new", 1)
    assert cache.get("new") == 1


def test_a_changed_byte_in_a_value_is_noticed(cache: DerivedCache) -> None:
    cache.put("name", b"exactly these bytes")
    cache.path.write_bytes(cache.path.read_bytes().replace(b"exactly", b"EXACTLY"))
    assert cache.get("name") is None


def test_a_file_that_is_locked_stops_nobody(cache: DerivedCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nacre.store.derived.READ_WAIT", 0.01)
    monkeypatch.setattr("nacre.store.derived.WRITE_WAIT", 0.01)
    cache.put("name", 1)
    holder = sqlite3.connect(cache.path, isolation_level=None)
    holder.execute("begin exclusive")
    assert cache.get("name") is None
    cache.put("name", 2)
    holder.execute("rollback")
    holder.close()
    assert cache.get("name") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_can_still_be_read(cache: DerivedCache) -> None:
    cache.put("name", 1)
    cache.path.chmod(0o400)
    cache.path.parent.chmod(0o500)
    cache.put("name", 2)
    assert cache.get("name") == 1
    cache.path.parent.chmod(0o700)


def test_processes_that_write_at_once_lose_nothing(cache: DerivedCache) -> None:
    script = """
        import sys
        from pathlib import Path
        from nacre.store.derived import DerivedCache
        cache = DerivedCache(Path(sys.argv[1]))
        for i in range(20):
            cache.put(f"{sys.argv[2]}-{i}", i)
    """
    folder = str(cache.path.parent / cache.scope)
    writers = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), folder, str(n)]) for n in range(3)
    ]
    assert [process.wait(60) for process in writers] == [0, 0, 0]
    assert len(cache.all()) == 60
