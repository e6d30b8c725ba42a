"""What was typed before: kept for the next session, several lines as one message, for nobody else to read."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from nacre.store.input_history import FILE, MAX_LINES, read_typed, write_typed

LINES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1).filter(
    lambda line: not line.endswith("\\") and line.splitlines() == [line]
)


@given(st.lists(st.lists(LINES, min_size=1, max_size=3).map("\n".join), max_size=5))
def test_messages_come_back_as_they_were_typed(messages: list[str]) -> None:
    with TemporaryDirectory() as folder:
        write_typed(Path(folder), messages)
        assert read_typed(Path(folder)) == messages


def test_only_the_newest_are_kept_and_only_for_their_owner(tmp_path: Path) -> None:
    write_typed(tmp_path / "home", [str(number) for number in range(MAX_LINES + 5)])
    assert read_typed(tmp_path / "home")[0] == "5"
    assert stat.S_IMODE((tmp_path / "home" / FILE).stat().st_mode) == 0o600


def test_what_was_there_stays_where_no_more_can_be_written(tmp_path: Path) -> None:
    """A full disk, as a limit of the process: what earlier sessions left is not cut off."""
    write_typed(tmp_path, ["before"])
    writing = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from nacre.store.input_history import write_typed\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"
        "write_typed(Path(sys.argv[1]), ['before', 'x' * 100])"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", writing, str(tmp_path)], capture_output=True, check=False
    )
    assert b"OSError" in done.stderr
    assert read_typed(tmp_path) == ["before"]
    assert [each.name for each in tmp_path.iterdir()] == [FILE]


def test_a_home_without_a_history_has_none(tmp_path: Path) -> None:
    assert read_typed(tmp_path) == []
