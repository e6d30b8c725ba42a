"""The files that a compaction reads again in a replay: as they were on disk, within a chat's limits (C21)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from nacre.devtools.replay.recorded_files import restored_files
from nacre.layers.l4_compact.policy import CompactSettings
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.records import Record, Said
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View

AT = datetime(2026, 3, 2, tzinfo=UTC)
READ = "     1→def first():\n     2→    return 1"
ROOM = 20_000


def used(*calls: tuple[str, JsonObject, str, bool]) -> list[Record]:
    """Return the records of these calls: name, arguments, result, and whether it is an error."""
    records: list[Record] = [Said(id="asked", at=AT, role="user", blocks=(Text("Go."),))]
    for number, (name, given, result, is_error) in enumerate(calls):
        call = ToolCall(f"c{number}", name, given)
        answer = ToolResult(call.id, (Text(result),), is_error)
        records.append(Said(id=f"reply-{number}", at=AT, role="assistant", blocks=(call,)))
        records.append(Said(id=f"heard-{number}", at=AT, role="user", blocks=(answer,)))
    return records


def edit(old: str, new: str, *, is_error: bool = False) -> tuple[str, JsonObject, str, bool]:
    return ("Edit", {"file_path": "a.py", "old_string": old, "new_string": new}, "done", is_error)


def texts(records: Sequence[Record], *, kept: int = 0, tokens: int = ROOM, **given: int) -> list[str]:
    items = View.of(records).items
    found = restored_files(
        records, items[len(items) - kept :], tokens=tokens, settings=CompactSettings(**given)
    )
    return [one.text for one in found]


WHOLE: tuple[str, JsonObject, str, bool] = ("Read", {"file_path": "a.py"}, READ, False)


def test_a_file_is_restored_with_the_edits_since_it_was_read() -> None:
    (text,) = texts(used(WHOLE, edit("return 1", "return 2"), edit("return 2", "lost", is_error=True)))
    assert "1\tdef first():\n2\t    return 2" in text and "a.py" in text and "lost" not in text


@pytest.mark.parametrize(
    "records",
    [
        used(("Read", {"file_path": "a.py", "offset": 5}, "     5→later", False)),
        used(WHOLE, edit("not in it", "x")),
        used(("Read", {"file_path": "a.py"}, "no such file", True)),
        used(edit("return 1", "return 2")),
    ],
    ids=["a part", "another text", "an error", "never read"],
)
def test_a_file_whose_text_is_not_known_is_left_out(records: Sequence[Record]) -> None:
    assert texts(records) == []


def test_the_newest_come_first_within_the_limits_and_none_that_is_shown_anyway() -> None:
    names = [f"{n}.py" for n in range(6)]
    records = used(
        *(("Write", {"file_path": one, "content": "word " * 4_000}, "done", False) for one in names)
    )
    found = texts(records, kept=2, max_files=3, file_tokens=2_000)
    assert [one for one in names if any(one in text for text in found)] == ["2.py", "3.py", "4.py"]
    assert "4.py" in found[0] and all(estimate_text(text) <= 2_000 for text in found)
    assert sum(map(estimate_text, texts(records, tokens=3_000))) <= 3_000
