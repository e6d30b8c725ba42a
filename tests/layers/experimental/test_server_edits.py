"""Edits of the provider's cache: when one is queued, where it stands, and what makes it void (C10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.layers.experimental.provider_clearing import deleted, edit_due, edits, queue, with_edits
from nacre.layers.l2_microcompact.policy import NACRE
from nacre.messages.blocks import Json, JsonObject, Text, ToolResult
from nacre.messages.records import Change, Replaced, ResultOf, Said
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import START, noted, view_of

FEW = replace(NACRE, server_after=4, server_keep=2)


def queued(view: View, clock: FrozenClock) -> View:
    edit = edit_due(view, FEW)
    assert edit is not None
    return view.after(queue(edit, clock))


def contents(view: View) -> list[Json]:
    return [
        message["content"]
        for message in with_edits(Request(model="m", messages=view.messages), view).messages
    ]


@pytest.mark.parametrize(("results", "deleted_calls"), [(4, 0), (5, 3), (9, 7)])
def test_an_edit_is_due_once_more_than_so_many_results_are_there(results: int, deleted_calls: int) -> None:
    edit = edit_due(view_of(results), FEW)
    assert len(edit.calls if edit else ()) == deleted_calls


def test_pinned_results_are_never_deleted() -> None:
    edit = edit_due(view_of(9, noted("pin", 1, call="c0", on=True)), FEW)
    assert edit is not None and edit.calls == tuple(f"c{n}" for n in range(1, 7))


def test_what_was_deleted_is_not_deleted_again(clock: FrozenClock) -> None:
    view = queued(view_of(5), clock)
    assert deleted(view) == {"c0", "c1", "c2"}
    assert edit_due(view, FEW) is None


def test_an_edit_stays_where_it_was_first_sent(clock: FrozenClock) -> None:
    """Bytes before and behind it never move; a second edit stands behind the first."""
    first = queued(view_of(5), clock)
    sent = contents(first)
    block: JsonObject = {
        "type": "cache_edits",
        "edits": [{"type": "delete", "cache_reference": f"c{n}"} for n in range(3)],
    }
    assert sent[-1][-1] == block  # type: ignore[index, call-overload]
    more = first.after(
        Said(id="later", at=START, role="user", blocks=(Text("and now?"),)),
        *view_of(9).records[11:],
    )
    second = queued(more, clock)
    assert [edit.calls for edit in edits(second)] == [("c0", "c1", "c2"), ("c3", "c4", "c5", "c6")]
    now = contents(second)
    assert now[: len(sent) - 1] == sent[:-1]
    assert block in now[len(sent) - 1]  # type: ignore[operator]
    assert contents(View.of(second.records)) == now


def test_a_rewrite_of_the_view_takes_its_edits_with_it(clock: FrozenClock) -> None:
    change = Change(ResultOf("c0"), (ToolResult("c0", (Text("gone"),)),))
    view = queued(view_of(5), clock).after(Replaced(id="x", at=START, changes=(change,), reason="clear"))
    assert not edits(view)
    assert contents(view) == [message["content"] for message in view.messages]
