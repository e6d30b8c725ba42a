"""The act: what a round's results are recorded as (C4 to C7)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nacre.layers.l1_offload.offload import DUPLICATE, OFFLOAD, REREAD, offload
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l1_offload.references import ResultsInView
from nacre.messages.blocks import Document, Image, Text, ToolResult
from nacre.messages.records import Change, Compacted, Replaced, ResultOf, Undone
from nacre.messages.view import View
from tests.layers.l1_offload.scenes import Talk, pages, texts

LONG = "".join(f"{n:>6} some output\n" for n in range(1_000))
PICTURE = Image({"type": "base64", "media_type": "image/png", "data": "aGk="})
FILE = [f"line {n} of the file, unlike the others" for n in range(200)]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path / "tool-results")


def test_a_long_result_goes_to_disk_whole_and_a_pointer_stays(talk: Talk) -> None:
    (call_id,) = talk.ask(("Bash", {"command": "make"}))
    done = talk.answer(ToolResult(call_id, (Text(LONG),)))
    path = talk.shelf.path(call_id)
    assert path is not None and path.read_text() == LONG
    (act,) = done.acts
    assert act.kind == OFFLOAD
    facts = {key: act.facts[key] for key in ("call", "tool", "reason", "path", "chars", "bytes")}
    assert facts == {
        "call": call_id, "tool": "Bash", "reason": "size",
        "path": str(path), "chars": len(LONG), "bytes": len(LONG),
    }  # fmt: skip
    (words,) = texts(done)
    assert act.facts["tokens_kept_out"] == -(-len(LONG) // 4) - -(-len(words) // 4)
    assert str(path) in words and str(path) in act.notice and "19,000 characters" in act.notice
    assert len(words) < 2_600


def test_a_result_that_its_tool_cut_is_said_to_be_cut(talk: Talk) -> None:
    note = "[558,895 more characters left out; use head, tail, grep or a file to see them.]"
    (call_id,) = talk.ask(("Bash", {"command": "seq 1 100000"}))
    done = talk.answer(ToolResult(call_id, (Text(f"{'x' * 30_000}\n{note}"),)))
    (words,) = texts(done)
    assert "Bash returned 30,000 of 588,895 characters" in words and "All of it" not in words
    assert "cut by the tool" in done.acts[0].notice


def test_a_cut_result_of_two_texts_is_kept_as_text(talk: Talk) -> None:
    note = "[result cut here: text of 19,000,000 characters (about 5,000,000 tokens) does not fit;"
    note += " ask the tool for less, with a filter, a range or a page]"
    (call_id,) = talk.ask(("mcp__db__query", {}))
    (words,) = texts(talk.answer(ToolResult(call_id, (Text(LONG), Text(note)))))
    assert "mcp__db__query returned 19,000 of 19,000,000 characters" in words and "JSON" not in words
    path = talk.shelf.path(call_id)
    assert path is not None and path.read_text() == f"{LONG}\n{note}"


def test_a_reference_to_a_cut_result_does_not_say_that_it_is_whole(talk: Talk) -> None:
    text = "a.txt:1:match\n" * 250 + "[750 more lines; narrow the search or raise head_limit.]"
    assert talk.call("Grep", text) == text
    again = talk.call("Grep", text)
    assert again.endswith("which stands as the tool cut it.]")


def test_an_error_is_shown_to_its_end_unless_it_is_very_long(talk: Talk) -> None:
    """C4: what a failing command said last is what matters."""
    failure = "x" * 9_900 + "\nError: no such file"
    assert talk.call("Bash", failure, is_error=True) == failure
    assert len(talk.call("Bash", failure.replace("x", "y"))) < 2_600
    assert len(talk.call("Bash", "z" * 12_001, is_error=True)) < 2_600


def test_an_error_is_no_reason_to_keep_a_long_result_in_view(talk: Talk) -> None:
    (call_id,) = talk.ask(("Bash", {}))
    done = talk.answer(ToolResult(call_id, (Text(LONG),), is_error=True))
    (result,) = done.said.blocks
    assert isinstance(result, ToolResult) and result.is_error and len(result.text) < 2_600


def test_what_was_read_is_never_offloaded(talk: Talk) -> None:
    """C4: cutting it would blind later edits, and reading a result back would loop."""
    assert talk.call("Read", LONG * 10, file_path="a") == LONG * 10
    assert talk.shelf.held() == []


def test_pictures_and_documents_stay_and_texts_go_as_text(talk: Talk) -> None:
    (call_id,) = talk.ask(("mcp__x__y", {}))
    paper = Document({"type": "url", "url": "https://example.org/x.pdf"})
    done = talk.answer(ToolResult(call_id, (Text("first"), PICTURE, Text(LONG), paper)))
    (result,) = done.said.blocks
    assert isinstance(result, ToolResult)
    pointer, *others = result.content
    assert others == [PICTURE, paper] and isinstance(pointer, Text)
    path = talk.shelf.path(call_id)
    assert path is not None and path.suffix == ".txt" and str(path) in pointer.text
    assert path.read_text() == f"first\n{LONG}"


def test_a_picture_alone_is_left_as_it_is(talk: Talk) -> None:
    (call_id,) = talk.ask(("mcp__x__y", {}))
    done = talk.answer(ToolResult(call_id, (PICTURE,)))
    assert done.said.blocks == (ToolResult(call_id, (PICTURE,)),) and not done.acts


def test_pictures_at_an_address_stay_however_many_they_are(talk: Talk) -> None:
    (call_id,) = talk.ask(("mcp__x__y", {}))
    pictures = tuple(Image({"type": "url", "url": f"https://example.org/{n}.png"}) for n in range(40))
    done = talk.answer(ToolResult(call_id, pictures))
    assert done.said.blocks == (ToolResult(call_id, pictures),) and not done.acts


@pytest.mark.parametrize("content", [(), (Text(""),), (Text(" \n"),)])
@pytest.mark.parametrize(
    ("is_error", "words"),
    [(False, "[Bash finished without output.]"), (True, "[Bash failed without saying why.]")],
)
def test_an_empty_result_says_so(talk: Talk, content: tuple[Text, ...], is_error: bool, words: str) -> None:
    """C7."""
    (call_id,) = talk.ask(("Bash", {}))
    done = talk.answer(ToolResult(call_id, content, is_error))
    assert texts(done) == [words]


def test_a_round_over_its_budget_sends_its_largest_to_disk(tmp_path: Path) -> None:
    """C5: none is over its own threshold."""
    talk = Talk(tmp_path, OffloadSettings(round_chars=21_000))
    ids = talk.ask(*(("Bash", {"n": n}) for n in range(4)))
    sizes = [6_000, 7_000, 5_000, 6_500]
    done = talk.answer(*(ToolResult(one, (Text(str(n) * sizes[n]),)) for n, one in enumerate(ids)))
    assert [len(text) < 3_000 for text in texts(done)] == [False, True, False, False]
    assert [act.facts["reason"] for act in done.acts] == ["round"]


def test_results_of_one_round_that_come_one_by_one_share_its_budget(tmp_path: Path) -> None:
    """C5, C6: what was recorded first is frozen; the next round starts anew."""
    talk = Talk(tmp_path, OffloadSettings(round_chars=10_000))
    first, second = talk.ask(("Bash", {"n": 1}), ("Bash", {"n": 2}))
    assert texts(talk.answer(ToolResult(first, (Text("a" * 7_000),)))) == ["a" * 7_000]
    assert texts(talk.answer(ToolResult(second, (Text("b" * 6_000),))))[0].startswith("<persisted-output>")
    assert talk.call("Bash", "c" * 7_000) == "c" * 7_000


def test_the_disk_refuses_and_the_result_stays(tmp_path: Path) -> None:
    """C7."""
    (tmp_path / "tool-results").write_text("in the way")
    talk = Talk(tmp_path / "tool-results")
    (call_id,) = talk.ask(("Bash", {}))
    done = talk.answer(ToolResult(call_id, (Text(LONG),)))
    assert texts(done) == [LONG] and not done.acts and "tool-results" in done.refused


def test_a_session_that_leaves_nothing_on_disk_keeps_everything_in_view() -> None:
    talk = Talk(None)
    (call_id,) = talk.ask(("Bash", {}))
    done = talk.answer(ToolResult(call_id, (Text(LONG),)))
    assert texts(done) == [LONG] and not done.refused


SAME = "the same words as before\n" * 20


def test_a_result_in_view_already_becomes_a_line_that_names_the_earlier_call(talk: Talk) -> None:
    """C7: a note tells layer 2 that the two belong together."""
    talk.call("Bash", SAME, command="git status")
    (call_id,) = talk.ask(("Bash", {"command": "git status --long"}))
    done = talk.answer(ToolResult(call_id, (Text(SAME),)))
    assert texts(done) == [
        '[The same 500 characters as the result of the earlier call Bash {"command":"git status"} (toolu_1), '
        "which stands in full.]"
    ]
    (act,) = done.acts
    assert (act.kind, act.facts["call"], act.facts["of"]) == (DUPLICATE, call_id, "toolu_1")
    assert talk.call("Grep", SAME).startswith("[The same 500 characters"), "and a third refers to the first"


@pytest.mark.parametrize(
    ("text", "is_said_again"),
    [("x" * 255, True), ("x" * 256, False), ("漢" * 85, True), ("漢" * 200, False)],
)
def test_only_what_is_worth_a_reference_gets_one(talk: Talk, text: str, is_said_again: bool) -> None:
    """C7: 256 bytes."""
    talk.call("Bash", text)
    assert (talk.call("Bash", text) == text) is is_said_again


def test_an_error_is_not_the_same_as_a_success_with_its_words(talk: Talk) -> None:
    talk.call("Bash", SAME)
    assert talk.call("Bash", SAME, is_error=True) == SAME


def test_the_same_result_twice_in_one_round_is_said_once_and_its_target_stays(tmp_path: Path) -> None:
    """C5, C7: what a reference points to is not sent to disk for the sake of the round."""
    talk = Talk(tmp_path, OffloadSettings(round_chars=9_000))
    first, second, third = talk.ask(("Bash", {"n": 1}), ("Bash", {"n": 2}), ("Bash", {"n": 3}))
    large, small = "a" * 7_000, "b" * 4_000
    done = talk.answer(*(ToolResult(*one) for one in [
        (first, (Text(large),)), (second, (Text(large),)), (third, (Text(small),))
    ]))  # fmt: skip
    kept, reference, pointer = texts(done)
    assert kept == large and "(toolu_1)" in reference and pointer.startswith("<persisted-output>")


def test_a_result_that_was_cleared_or_compacted_away_is_no_target(talk: Talk) -> None:
    """C7: only what is still in view; after an undo it is again."""
    talk.call("Bash", SAME)
    now = talk.clock.now()
    change = Change(ResultOf("toolu_1"), (ToolResult("toolu_1", (Text("gone"),)),))
    cleared = Replaced(id="r", at=now, changes=(change,), reason="clear")
    talk.view = talk.view.after(cleared)
    assert talk.call("Bash", SAME) == SAME
    assert "(toolu_2)" in talk.call("Bash", SAME)
    talk.view = talk.view.after(Undone(id="u", at=now, target="r"))
    assert "(toolu_1)" in talk.call("Bash", SAME)
    talk.view = talk.view.after(Compacted(id="c", at=now, summary=(Text("all of it"),)))
    assert talk.call("Bash", SAME) == SAME


def test_a_result_that_never_reached_the_model_is_no_target(talk: Talk) -> None:
    """T6: the view leaves out what answers no open call, so nobody could look it up."""
    (late,) = talk.ask(("Bash", {}))
    talk.ask(("Bash", {}))
    talk.answer(ToolResult(late, (Text(SAME),)))
    assert talk.call("Bash", SAME) == SAME


def test_a_result_on_disk_is_no_target_but_gets_a_pointer_each_time(talk: Talk) -> None:
    first, second = talk.call("Bash", LONG), talk.call("Bash", LONG)
    assert first.startswith("<persisted-output>") and second.startswith("<persisted-output>")


def test_a_file_read_again_unchanged_is_said_in_one_line(talk: Talk) -> None:
    talk.call("Read", pages(*FILE), file_path="src/a.py")
    words = talk.call("Read", pages(*FILE), file_path="./src/a.py", offset=1)
    assert (
        words == "[Unchanged: the text of the earlier Read of src/a.py (toolu_1) still stands, line by line.]"
    )


def test_a_file_read_again_shows_what_changed_since_it_was_last_read_whole(talk: Talk) -> None:
    """C4: old text and changes make the new text, also the third time."""
    talk.call("Read", pages(*FILE), file_path="a.py")
    for change in ("CHANGED", "changed again"):
        (call_id,) = talk.ask(("Read", {"file_path": "a.py"}))
        new = [*FILE[:99], change, *FILE[100:]]
        done = talk.answer(ToolResult(call_id, (Text(pages(*new)),)))
        (act,) = done.acts
        assert (act.kind, act.facts["of"]) == (REREAD, "toolu_1")
        head, *changes = texts(done)[0].split("\n")
        assert "the earlier Read of a.py (toolu_1)" in head
        assert changes == [
            "[lines 1-99 as before]", "[in place of the earlier line 100:]",
            f"100\t{change}", "[lines 101-200 as before]",
        ]  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [{"file_path": "b.py"}, {"file_path": "a.py", "offset": 2}, {"file_path": "a.py", "limit": 3}, {}],
)
def test_another_file_or_another_range_is_another_text(talk: Talk, other: dict[str, str | int]) -> None:
    new = pages(*FILE[:-1], "changed")
    talk.call("Read", pages(*FILE), file_path="a.py")
    assert talk.call("Read", new, **other) == new


def test_a_file_read_again_after_it_was_cleared_is_sent_whole(talk: Talk) -> None:
    talk.call("Read", pages(*FILE), file_path="a.py")
    gone = (ToolResult("toolu_1", (Text("gone"),)),)
    talk.view = talk.view.after(
        Replaced(id="r", at=talk.clock.now(), changes=(Change(ResultOf("toolu_1"), gone),), reason="clear")
    )
    assert talk.call("Read", pages(*FILE), file_path="a.py") == pages(*FILE)


def test_rereads_can_be_switched_off(tmp_path: Path) -> None:
    talk = Talk(tmp_path, OffloadSettings(rereads=False))
    new = pages(*FILE[:-1], "changed")
    talk.call("Read", pages(*FILE), file_path="a.py")
    assert talk.call("Read", new, file_path="a.py") == new


def test_folding_the_log_again_gives_the_same_bytes(talk: Talk) -> None:
    """C6: what was decided is in the records: a fork and a resumed session cannot decide otherwise."""
    talk.call("Bash", LONG)
    talk.call("Bash", SAME)
    talk.call("Bash", SAME)
    talk.call("Read", pages(*FILE), file_path="a.py")
    talk.call("Read", pages("new", *FILE), file_path="a.py")
    again = View.of(talk.view.records)
    assert again == talk.view and again.messages == talk.view.messages
    followed, anew = talk.seen.follow(talk.view), ResultsInView.of(again)
    assert followed.texts == anew.texts and followed.round_chars == anew.round_chars


def test_what_goes_in_once_more_comes_out_as_it_was(talk: Talk) -> None:
    """C6: a pointer is short; it is never replaced by a pointer to itself."""
    (call_id,) = talk.ask(("Bash", {}))
    once = offload(
        talk._said("user", [ToolResult(call_id, (Text(LONG),))]),
        talk.seen.follow(talk.view), talk.shelf, talk.settings,
    )  # fmt: skip
    twice = offload(once.said, talk.seen, talk.shelf, talk.settings)
    assert twice.said == once.said and not twice.acts


def test_half_a_surrogate_pair_and_a_hostile_id_do_no_harm(tmp_path: Path) -> None:
    talk = Talk(tmp_path / "tool-results")
    text = "\ud800 broken \udfff\n" * 2_000
    done = talk.answer(ToolResult("../../evil\0", (Text(text),)))
    (act,) = done.acts
    kept = Path(str(act.facts["path"]))
    assert kept.parent == tmp_path / "tool-results"
    assert kept.read_bytes().decode(errors="surrogatepass") == text
    assert talk.shelf.read("../../evil\0") == text


LARGE = """
import resource, sys
from pathlib import Path
from nacre.messages.blocks import Text, ToolResult
from tests.layers.l1_offload.scenes import Talk, texts
talk = Talk(Path(sys.argv[1]))
(call_id,) = talk.ask(("Bash", {}))
result = ToolResult(call_id, (Text(" 0123456789abcd\\n" * 12_500_000),))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(words,) = texts(talk.answer(result))
print("200,000,000 characters" in words, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_two_hundred_megabytes_leave_a_pointer_and_are_never_held_twice(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path)], cwd=root, capture_output=True, text=True, check=True
    )
    is_told, grown_kilobytes = ran.stdout.split()
    assert is_told == "True" and int(grown_kilobytes) < 50_000


def test_one_endless_line_leaves_a_pointer_that_says_how_to_read_it(talk: Talk) -> None:
    assert "`column`" in talk.call("Bash", "x" * 20_000_000)


@pytest.mark.slow
def test_ten_thousand_results_cost_no_more_each_than_the_first(tmp_path: Path) -> None:
    """No timed test: what is looked at is counted. Following twice must not look at anything twice."""
    talk = Talk(tmp_path)
    looked_at = []
    take = ResultsInView._take

    class Counting(ResultsInView):
        def _take(self, item: object) -> None:
            looked_at.append(item)
            take(self, item)  # type: ignore[arg-type]

    talk.seen = Counting()
    for n in range(10_000):
        assert talk.call("Bash", f"result {n}\n" * 40) == f"result {n}\n" * 40
    assert len(looked_at) == len(talk.view.items) - 1
