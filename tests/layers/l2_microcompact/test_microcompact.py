"""The act of clearing: originals on disk, one sentence in view, everything in the log."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.errors import StoreError
from nacre.layers.l2_microcompact.layer import microcompact
from nacre.layers.l2_microcompact.policy import NACRE, ClearDecision, due
from nacre.messages.blocks import Image, JsonObject, Opaque, Text, Thinking, ToolCall, ToolResult
from nacre.messages.jsonl import Envelope, decode, encode
from nacre.messages.records import Change, Noted, Replaced, ResultOf, Said
from nacre.messages.results import answered_calls
from nacre.messages.view import View
from nacre.store.tool_results import CLEARED, KEPT, StoredResult, ToolResultStore, pointed_to
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import BINDING, START, moment, noted, rounds, view_of, words
from tests.pictures import png

FEW = replace(NACRE, keep=1)


async def cleared(view: View, shelf: ToolResultStore, clock: FrozenClock, **given: object) -> View:
    now = moment(**given)  # type: ignore[arg-type]
    decision = due(view, now, FEW)
    assert decision is not None
    done = await microcompact(view, decision, store=shelf, clock=clock, warmth=now.warmth)
    return view.after(*done.records)


def texts(view: View) -> dict[str, str]:
    return {one.id: one.result.text for one in answered_calls(view.items)}


async def test_a_cleared_result_names_the_file_that_holds_it_whole(
    tmp_path: Path, clock: FrozenClock
) -> None:
    """C9: saved first, then replaced by one fixed sentence plus that path; the calls stay."""
    shelf = ToolResultStore(tmp_path / "tool-results")
    before = view_of(3)
    after = await cleared(before, shelf, clock)
    path = shelf.path("c0")
    assert path is not None and path.read_text(encoding="utf-8") == words(0)
    assert texts(after) == {
        "c0": f"[This old result was cleared to save room. Its full text is in {path}; "
        "read it there if you need it.]",
        "c1": texts(after)["c0"].replace(str(path), str(shelf.path("c1"))),
        "c2": words(2),
    }
    assert [one.call for one in answered_calls(after.items)] == [
        one.call for one in answered_calls(before.items)
    ]
    assert after.epochs == ("clear",)
    assert after.replaced == {"c0": "clear", "c1": "clear"}


async def test_a_cleared_result_that_its_tool_cut_is_not_said_to_be_whole(
    tmp_path: Path, clock: FrozenClock
) -> None:
    cut = words(0) + "\n[75 more lines; narrow the search or raise head_limit.]"
    changed = Change(ResultOf("c0"), (ToolResult("c0", (Text(cut),)),))
    renamed = Replaced(id="r", at=START, changes=(changed,), reason="test")
    before = view_of(3, tool="Grep").after(renamed)
    after = await cleared(before, ToolResultStore(tmp_path), clock)
    told = texts(after)
    assert told["c0"].startswith(
        "[This old result was cleared to save room. What its tool returned, cut, is in "
    )
    assert "Its full text is in" in told["c1"]
    assert pointed_to(told["c0"]) == str(tmp_path / "c0.txt")
    assert pointed_to(told["c1"]) == str(tmp_path / "c1.txt")


async def test_a_clear_says_in_the_log_what_went_and_why(tmp_path: Path, clock: FrozenClock) -> None:
    after = await cleared(view_of(3), ToolResultStore(tmp_path), clock)
    note = after.noted(CLEARED)[-1]
    assert note.facts == {
        "reason": "idle",
        "calls": ["c0", "c1"],
        "tokens": view_of(3).estimate - after.estimate,
        "lost": [],
        "folder": str(tmp_path),
        "keeps_from": "c2",
        "idle_seconds": 301.0,
    }


async def test_the_same_clear_is_the_same_bytes_always_and_survives_the_log(
    tmp_path: Path, clock: FrozenClock
) -> None:
    """C6, T3: a resumed session makes identical bytes."""
    once = await cleared(view_of(4), ToolResultStore(tmp_path), clock)
    again = await cleared(view_of(4), ToolResultStore(tmp_path), FrozenClock())
    assert once.messages == again.messages
    envelope = Envelope(session_id="s", cwd="/", version="0")
    lines = [encode(record, envelope=envelope, parent=None) for record in once.records]
    assert View.of(decode(lines).records).messages == once.messages


@pytest.mark.parametrize("kind", ["none", "refusing"])
async def test_what_cannot_be_kept_is_said_to_be_gone(kind: str, tmp_path: Path, clock: FrozenClock) -> None:
    """C9: without a folder, or when the disk refuses, the sentence says that the call can be made again."""

    class Refusing(ToolResultStore):
        def keep(self, call_id: str, text: str, *, structured: bool = False) -> StoredResult:
            raise StoreError("no space left")

    after = await cleared(view_of(2), ToolResultStore(None) if kind == "none" else Refusing(tmp_path), clock)
    assert texts(after)["c0"] == (
        "[This old result was cleared to save room and could not be kept; "
        "make the call again if you need it.]"
    )
    assert after.noted(CLEARED)[-1].fact("lost") == ["c0"]


async def test_a_reference_points_to_where_its_target_is(tmp_path: Path, clock: FrozenClock) -> None:
    """C7: target and reference are cleared together."""
    view = view_of(3, noted("duplicate", 1, call="c1", of="c0"))
    after = await cleared(view, ToolResultStore(tmp_path), clock)
    assert texts(after)["c1"] == texts(after)["c0"]
    assert ToolResultStore(tmp_path).path("c0").read_text(encoding="utf-8") == words(0)  # type: ignore[union-attr]


async def test_bound_thinking_goes_in_the_same_record(tmp_path: Path, clock: FrozenClock) -> None:
    """C12b: all behind the first cleared result; what precedes it is unchanged; elsewhere it stays."""
    redacted = Said(
        id="z",
        at=START,
        role="assistant",
        blocks=(Opaque("redacted_thinking", {"type": "redacted_thinking", "data": "x"}), Text("ok")),
    )
    view = view_of(4, redacted, thinking=True)
    after = await cleared(view, ToolResultStore(tmp_path), clock, model=BINDING)
    left = [one for one in blocks(after) if isinstance(one, Thinking | Opaque)]
    assert left == [Thinking("thought 0", "signed")]
    assert len([record for record in after.records if isinstance(record, Replaced)]) == 1
    elsewhere = await cleared(view, ToolResultStore(tmp_path), clock)
    assert len([one for one in blocks(elsewhere) if isinstance(one, Thinking | Opaque)]) == 5


def blocks(view: View) -> list[object]:
    return [part.block for item in view.items for part in item.parts]


@pytest.mark.parametrize(("tool", "name"), [("Read", "pic=1.png"), ("Bash", "pic.json")])
async def test_a_picture_of_a_read_is_kept_as_its_file_and_others_as_the_json_that_was_sent(
    tool: str, name: str, tmp_path: Path, clock: FrozenClock
) -> None:
    picture = png(800, 600)
    source: JsonObject = {"type": "base64", "media_type": "image/png", "data": b64encode(picture).decode()}
    shown = ToolResult("pic", (Text("a picture"), Image(source)), is_error=True)
    view = view_of(
        0,
        Said(id="a", at=START, role="assistant", blocks=(ToolCall("pic", tool, {}),)),
        Said(id="b", at=START, role="user", blocks=(shown,)),
        *view_of(1).records[1:],
    )
    after = await cleared(view, ToolResultStore(tmp_path), clock)
    path = tmp_path / name
    if tool == "Read":
        assert path.read_bytes() == picture
    else:
        assert [part["type"] for part in json.loads(path.read_bytes())] == ["text", "image"]
        assert json.loads(path.read_bytes())[1]["source"] == source
    standing = answered_calls(after.items)[0].result
    assert str(path) in standing.text and standing.is_error


@pytest.mark.parametrize(
    "source",
    [
        {"type": "url", "url": "https://example.com/a.png"},
        {"type": "file", "file_id": "file_011"},
        {"type": "base64", "media_type": "image/png", "data": ""},
        {"type": "base64", "media_type": "image/png", "data": "no base64 at all!"},
    ],
)
async def test_a_picture_without_bytes_is_kept_as_the_json_that_was_sent(
    source: JsonObject, tmp_path: Path, clock: FrozenClock
) -> None:
    """Such pictures are in imported sessions and come from tools of one's own named Read."""
    shown = ToolResult("pic", (Text("a picture"), Image(source)))
    view = view_of(
        0,
        Said(id="a", at=START, role="assistant", blocks=(ToolCall("pic", "Read", {}),)),
        Said(id="b", at=START, role="user", blocks=(shown,)),
        *view_of(1).records[1:],
    )
    after = await cleared(view, ToolResultStore(tmp_path), clock)
    assert json.loads((tmp_path / "pic.json").read_bytes())[1]["source"] == source
    text = answered_calls(after.items)[0].result.text
    assert str(tmp_path / "pic.json") in text and "could not be kept" not in text
    [note] = after.noted("clear")
    assert note.fact("lost") == []


async def test_a_decision_about_results_that_are_gone_does_nothing(
    tmp_path: Path, clock: FrozenClock
) -> None:
    decision = due(view_of(3), moment(), FEW)
    assert decision is not None
    done = await microcompact(View(), decision, store=ToolResultStore(tmp_path), clock=clock)
    assert done.records == () and not list(tmp_path.iterdir())
    assert not [record for record in done.records if isinstance(record, Noted)]


async def test_a_line_of_names_stays_with_what_is_cleared_on_a_cold_cache(
    tmp_path: Path, clock: FrozenClock
) -> None:
    """C9: not with what is cleared because it does not fit, which must get as small as was decided."""
    text = "def parse_line(): ...\n" * 3 + words(0)
    records = [
        replace(one, blocks=(ToolResult("c0", (Text(text),)),)) if one.id == "r0" else one
        for one in rounds(30)
    ]
    view = View.of(records)
    for reason, line in (("idle", "\nNames in it: parse_line"), ("full", "")):
        decision = ClearDecision(reason=reason, calls=("c0", "c1"), tokens=1)  # type: ignore[arg-type]
        done = await microcompact(
            view, decision, store=ToolResultStore(tmp_path), clock=clock, names_tokens=60
        )
        first, second = answered_calls(view.after(*done.records).items)[:2]
        path = tmp_path / "c0.txt"
        assert first.result.text == KEPT.format(path=path) + line
        assert pointed_to(first.result.text) == str(path)
        assert "Names in it" not in second.result.text
