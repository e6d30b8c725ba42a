from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import hypothesis.strategies as st
from hypothesis import given

from nacre.messages.blocks import Opaque, Text, ToolCall, ToolResult
from nacre.messages.pairing import INTERRUPTED, Item
from nacre.messages.records import Compacted, Record, Said
from nacre.messages.rounds import cuts, rounds, tail_from
from nacre.messages.view import View
from tests.messages.strategies import logs, moment


def said(name: str, role: str, *blocks: object) -> Said:
    return Said(id=name, at=moment(0), role=role, blocks=blocks)  # type: ignore[arg-type]


def answers(view: View) -> dict[str, str]:
    """What a request says about every call of the view, by its id."""
    found: dict[str, str] = {}
    for message in view.messages:
        content = message["content"]
        assert isinstance(content, list)
        for block in content:
            assert isinstance(block, dict)
            if block["type"] == "tool_result":
                found[str(block["tool_use_id"])] = str(block.get("content"))
    return found


def calls(items: Sequence[Item]) -> Counter[str]:
    return Counter(part.block.id for item in items for part in item.parts if isinstance(part.block, ToolCall))


@given(logs(), st.data())
def test_no_call_of_a_kept_tail_loses_its_result_wherever_it_is_cut(
    records: list[Record], data: st.DataObject
) -> None:
    """C16, C17b: and no result is kept whose call is gone."""
    view = View.of(records)
    place = data.draw(st.sampled_from(cuts(view.items)))
    tail = view.items[place:]
    keeps = tail[0].record_id if tail else None
    if keeps is not None and any(item.record_id == keeps for item in view.items[:place]):
        return  # an id that stands twice cannot be cut at
    after = view.after(Compacted(id="cut", at=moment(99), summary=(Text("what happened"),), keeps_from=keeps))
    before, now = answers(view), answers(after)
    # Of two calls with one id the view leaves the second out, until the first is gone.
    once = {call for call, count in calls(view.items).items() if count == 1}
    for call in calls(tail).keys() & once:
        assert now.get(call) == before.get(call)
    assert set(now) & once <= set(before)


@given(logs())
def test_a_cut_never_stands_inside_a_reply(records: list[Record]) -> None:
    items = View.of(records).items
    for place in cuts(items)[:-1]:
        if items[place].role == "assistant" and items[place].reply_id is not None:
            replies = [item.reply_id for item in items[:place] if item.role == "assistant"]
            assert not replies or replies[-1] != items[place].reply_id


@given(logs(), st.integers(0, 200))
def test_the_tail_begins_at_the_first_cut_from_which_everything_fits(
    records: list[Record], tokens: int
) -> None:
    """C17b: as much as there is room for; where not even the last round fits, nothing."""
    items = View.of(records).items
    place = tail_from(items, tokens)
    fitting = [cut for cut in cuts(items) if sum(item.tokens for item in items[cut:]) <= tokens]
    assert place == fitting[0]
    assert fitting[-1] == len(items)


@given(logs())
def test_rounds_are_all_items_once_and_begin_with_a_reply(records: list[Record]) -> None:
    """C24: what is dropped from the front is whole rounds."""
    items = View.of(records).items
    spans = rounds(items)
    assert [place for first, last in spans for place in range(first, last)] == list(range(len(items)))
    assert all(first in cuts(items) for first, _ in spans)
    assert all(items[first].role == "assistant" for first, _ in spans[1:])


def test_a_call_and_its_result_stay_in_one_round() -> None:
    items = View.of(
        [
            said("u1", "user", Text("go")),
            said("a1", "assistant", ToolCall("c1", "Read", {})),
            said("u2", "user", ToolResult("c1", (Text("x"),))),
            said("a2", "assistant", Text("done")),
            said("u3", "user", Text("thanks")),
        ]
    ).items
    assert cuts(items) == [0, 1, 3, 4, 5]
    assert rounds(items) == [(0, 1), (1, 3), (3, 5)]


def test_a_call_that_was_never_answered_does_not_keep_everything_after_it_together() -> None:
    """T6: a person's words end the waiting; the call stays with the note that it was interrupted."""
    view = View.of(
        [
            said("a1", "assistant", ToolCall("c1", "Read", {})),
            said("u1", "user", Text("never mind")),
            said("a2", "assistant", Text("fine")),
        ]
    )
    assert cuts(view.items)[-1] == 3
    assert 2 in cuts(view.items)
    assert INTERRUPTED in str(view.messages)


def test_words_typed_while_a_call_runs_do_not_part_it_from_its_result() -> None:
    """C16: the view pairs them, so that a tail which begins between them would lose the result."""
    records: list[Record] = [
        said("u", "user", Text("look")),
        said("a", "assistant", ToolCall("c", "Read", {})),
        said("v", "user", Text("and be quick")),
        said("r", "user", ToolResult("c", (Text("found"),))),
        said("w", "user", Text("well?")),
    ]
    assert cuts(View.of(records).items) == [0, 1, 4, 5]


def test_a_call_that_was_never_answered_keeps_no_tail_from_beginning_behind_it() -> None:
    records: list[Record] = [
        said("a", "assistant", ToolCall("c", "Read", {})),
        said("v", "user", Text("never mind")),
        said("b", "assistant", Text("all right")),
    ]
    assert cuts(View.of(records).items) == [0, 1, 2, 3]


def test_the_two_messages_of_a_provider_s_summary_are_not_parted() -> None:
    """C23b: both have its id, so that a tail from the second on would begin with the first."""
    block = Opaque("compaction", {"type": "compaction", "content": "so far", "signature": "s"})
    summary = Compacted(id="c", at=moment(1), summary=(block, Text("word for word")), summary_id="s")
    items = View.of([said("u", "user", Text("go")), summary, said("v", "user", Text("on"))]).items
    assert [item.record_id for item in items] == ["s", "s", "v"]
    assert cuts(items) == [0, 2, 3]


def test_records_of_a_reply_without_an_id_stay_together() -> None:
    """C16: not every provider names its replies."""
    records: list[Record] = [
        said("u", "user", Text("go")),
        said("a", "assistant", Text("first")),
        said("b", "assistant", Text("then")),
        said("v", "user", Text("on")),
    ]
    assert cuts(View.of(records).items) == [0, 1, 3, 4]
