"""Local-only memories are taken out of what is about to leave the machine."""

from __future__ import annotations

from pathlib import Path

from nacre.memory.checks.local_only import MARKER, local_only_entries

SECRET = """---
name: Salary of the person
description: What the person earns in a year
local-only: true
---
The salary is 81,000 a year.
It is paid on the 25th of each month.
"""


def test_every_line_of_a_local_only_memory_is_replaced_however_it_is_spaced(tmp_path: Path) -> None:
    """M27: read whole, one line found by a search, or squeezed onto one line."""
    (tmp_path / "salary.md").write_text(SECRET)
    (tmp_path / "tea.md").write_text(
        "---\nname: Tea\ndescription: likes green tea\n---\nGreen tea, always.\n"
    )
    staying = local_only_entries(tmp_path)
    assert staying.files == {"salary.md"}
    for text in (
        SECRET,
        "x:3:The salary is 81,000 a year.",
        "said: The salary  is\n81,000 a year. It is paid",
    ):
        left = staying.without(text)
        assert "81,000" not in left
        assert MARKER in left
    assert staying.without("Green tea, always.") == "Green tea, always."


def test_a_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert local_only_entries(tmp_path / "nowhere").entries == ()
