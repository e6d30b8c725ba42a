"""One fact of a log is erased in every form its log ever gave it; the others keep every byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nacre.errors import StoreError
from nacre.memory.daily_log import log_file
from nacre.memory.files.location import user_location
from nacre.memory.format.entry import MemoryChange
from nacre.memory.memory import Memory
from nacre.memory.purge.memory import erase_line, line_named, purge_target_of_line, without_forms
from nacre.store.history import History, holding
from nacre.testing import FrozenClock
from tests.histories import without_lines

HAND = MemoryChange(author="user", reason="by hand")
FILE = log_file(FrozenClock().now().date())


@pytest.fixture
async def memory(tmp_path: Path) -> Memory:
    return await Memory.at(user_location(tmp_path / "home"), tmp_path, clock=FrozenClock())


async def test_a_fact_that_a_person_wrapped_differently_goes_in_both_forms(memory: Memory) -> None:
    """M14b, M17: the history has it on one line, the log now on two, with other line ends."""
    await memory.put(FILE, b"- 09:00 tea is green\n- 10:00 the orca swims far\n", HAND)
    await memory.put(
        FILE, b"- 09:00 tea is green\r\n- 10:00 the orca\r\n  swims far\r\n- 11:00 lunch\r\n", HAND
    )
    line = line_named(memory, "The orca swims far")
    assert line is not None
    past = purge_target_of_line(memory, line)
    assert (past.texts, past.shared) == (("the orca swims far",), ())
    assert past.commits == 3  # two changes, and as it is now
    erased = await erase_line(memory, line, HAND)
    assert erased.left == ()
    assert (memory.location.directory / FILE).read_bytes() == b"- 09:00 tea is green\r\n- 11:00 lunch\r\n"
    history = History(memory.location.history)
    assert holding(history, scrub=without_lines("orca", "swims")) == ()
    assert holding(history, scrub=without_lines("tea")) != ()


async def test_another_memory_that_says_the_same_is_told(memory: Memory) -> None:
    """M14b: it keeps its words, in its file and in the history."""
    await memory.put(FILE, b"- 10:00 the orca swims far to the north\n", HAND)
    await memory.put("orca.md", b"---\nname: Orca\n---\nthe orca swims far to the north\n", HAND)
    line = line_named(memory, f"{FILE}:1")
    assert line is not None
    assert [spot.path.name for spot in purge_target_of_line(memory, line).shared] == ["orca.md"]
    await erase_line(memory, line, HAND)
    assert not (memory.location.directory / FILE).exists()
    assert b"swims far" in (memory.location.directory / "orca.md").read_bytes()
    assert holding(History(memory.location.history), scrub=without_lines("swims far")) != ()


async def test_a_name_that_means_no_line_or_several_names_none(memory: Memory) -> None:
    await memory.put(FILE, b"- 09:00 tea\n- 10:00 Tea\n", HAND)
    assert line_named(memory, f"{FILE}:3") is None
    assert line_named(memory, "te") is None
    with pytest.raises(StoreError, match=f"{FILE}:1, {FILE}:2"):
        line_named(memory, "TEA")


_LINE = st.sampled_from([b"a", b"b", b"", b"- a", b"a \r"])


@example(b"a\n- a\nb", [[b"a", b"b"], [b"- a"]])
@given(st.lists(_LINE).map(b"\n".join), st.lists(st.lists(_LINE, min_size=1, max_size=3), max_size=3))
def test_what_is_scrubbed_once_is_scrubbed(data: bytes, written: list[list[bytes]]) -> None:
    """The rewriting of a history relies on it."""
    forms = [tuple(line.rstrip() for line in lines) for lines in written]
    scrub = without_forms(forms)
    assert scrub(scrub(data)) == scrub(data)
