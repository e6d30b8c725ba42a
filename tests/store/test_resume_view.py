"""Reading a log from where it says one may, and reading it whole, fold to the same view (T3, T9)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.messages.blocks import Text
from nacre.messages.jsonl import Envelope, chained_id, decode, encode
from nacre.messages.records import Compacted, Record, Said, Undone
from nacre.messages.view import View
from nacre.store.session_log import SessionLog
from tests.scale import scaled

AT = datetime(2026, 1, 1, tzinfo=UTC)
ENVELOPE = Envelope(session_id="s", cwd="/w")

STEP = st.tuples(
    st.sampled_from(["said", "said", "said", "whole", "whole", "span", "undone"]),
    st.integers(0, 40),
    st.integers(0, 40),
)


def told(steps: list[tuple[str, int, int]]) -> list[Record]:
    """A session in which every compaction names records that were said, summaries included."""
    records: list[Record] = []
    named: list[str] = []
    compactions: list[str] = []
    for number, (kind, one, two) in enumerate(steps):
        record_id, summary = f"r{number}", f"sum{number}"
        first = named[one % len(named)] if named else None
        keeps = named[two % len(named)] if named and two % 4 else None
        if kind == "said" or (kind == "span" and first is None) or (kind == "undone" and not compactions):
            role = "user" if number % 2 else "assistant"
            records.append(Said(id=record_id, at=AT, role=role, blocks=(Text(f"text {number}"),)))
            named.append(record_id)
        elif kind == "undone":
            records.append(Undone(id=record_id, at=AT, target=compactions[one % len(compactions)]))
        else:
            start = first if kind == "span" else None
            records.append(
                Compacted(
                    id=record_id,
                    at=AT,
                    summary=(Text(f"summary {number}"),),
                    first=start,
                    keeps_from=keeps,
                    summary_id=summary,
                    kind="span" if kind == "span" else "full",
                )
            )
            named.append(summary)
            compactions.append(record_id)
    return records


def write(log: SessionLog, records: list[Record]) -> None:
    parent = None
    for record in records:
        log.append(encode(record, envelope=ENVELOPE, parent=parent))
        parent = chained_id(record) or parent


@given(steps=st.lists(STEP, max_size=30))
@settings(max_examples=scaled(200), deadline=None)
def test_the_view_from_the_resume_offset_is_the_view_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    """T9: kept tails, spans, kept summaries and undone compactions included."""
    with SessionLog.create(Path(tmp_path_factory.mktemp("home")), "/w", session="s") as log:
        write(log, told(steps))
        whole = View.of(decode(line + b"\n" for line in log.read()).records)
        resumed = View.of(decode(line + b"\n" for line in log.read(log.resume_offset().offset)).records)
    assert resumed.messages == whole.messages


def test_a_kept_tail_is_all_that_is_read_before_the_boundary(tmp_path: Path) -> None:
    """T9: the property above would hold for a log that is always read whole; this one is not."""
    steps = [Said(id=f"r{n}", at=AT, role="user", blocks=(Text(f"text {n}"),)) for n in range(50)]
    last = Compacted(id="b", at=AT, summary=(Text("sum"),), keeps_from="r48", summary_id="sum")
    with SessionLog.create(tmp_path, "/w", session="s") as log:
        write(log, [*steps, last])
        resume = log.resume_offset()
        assert sum(1 for _ in log.read(resume.offset)) == 4
        assert resume.bytes_to_read < log.size / 5
