"""Recordings as steps: one for each reply, at the time it was asked, with nothing the model never saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.devtools.replay.recorded import MAX_BASE, PACE, read_recorded
from nacre.errors import ForeignTranscript, TranscriptError
from nacre.inspect.sources import files_in
from nacre.messages.blocks import JsonObject, ToolResult
from tests.cli.recorded import assistant, call, compacted, conversation, result, text, user, written


def with_usage(line: JsonObject, prompt: int, output: int = 5) -> JsonObject:
    message = line["message"]
    assert isinstance(message, dict)
    usage: JsonObject = {"input_tokens": prompt, "output_tokens": output}
    return line | {"message": message | {"usage": usage}}


def test_a_step_is_what_was_heard_and_the_reply_it_got(tmp_path: Path) -> None:
    """P7: the request was made when the last record before the reply was written."""
    (session,) = read_recorded(written(tmp_path / "a.jsonl", conversation()))
    assert [len(step.heard) for step in session.steps] == [1, 1]
    assert [step.starts_turn for step in session.steps] == [True, False]
    assert [step.at.second for step in session.steps] == [1, 3]
    assert session.model == "claude-opus-4-5-20251101"
    assert session.has_times
    assert session.name == "a"


def test_results_that_came_while_a_reply_streamed_are_heard_after_it(tmp_path: Path) -> None:
    """Parallel calls: records of one reply with results between them are one step."""
    lines = [
        user(1, "Look at both."),
        assistant(2, [call("t1", "Read", path="a.py")]),
        user(3, [result("t1", "one")]),
        assistant(4, [call("t2", "Read", path="b.py")]),
        user(5, [result("t2", "two")]),
        assistant(6, [text("Done.")]),
    ]
    for line in lines[1:4:2]:
        line["message"]["id"] = "msg_same"  # type: ignore[index, call-overload]
    (session,) = read_recorded(written(tmp_path / "a.jsonl", lines))
    first, second = session.steps
    assert [block.id for block in first.reply.message.tool_calls] == ["t1", "t2"]
    answers = [
        block.call_id for said in second.heard for block in said.blocks if isinstance(block, ToolResult)
    ]
    assert answers == ["t1", "t2"]


def test_a_log_that_begins_with_a_reply_or_a_result_starts_with_the_first_message(tmp_path: Path) -> None:
    """What answers nothing that stands in the log cannot be asked for."""
    lines = [
        assistant(1, [call("t1", "Read", path="a.py")]),
        user(2, [result("t1", "one")]),
        assistant(3, [text("One.")]),
    ]
    with pytest.raises(ForeignTranscript, match="nothing to replay"):
        read_recorded(written(tmp_path / "a.jsonl", lines))
    more = [user(4, "And now?"), assistant(5, [text("Nothing.")])]
    (session,) = read_recorded(written(tmp_path / "b.jsonl", [*lines, *more]))
    assert [step.reply.message.text for step in session.steps] == ["Nothing."]


def test_what_no_model_was_sent_or_wrote_is_left_out(tmp_path: Path) -> None:
    """Sidechains, words of no model, boundaries and summaries of the recording's own compaction."""
    side = user(8, "Another agent's task.", isSidechain=True)
    synthetic = assistant(9, [text("API Error")])
    synthetic["message"]["model"] = "<synthetic>"  # type: ignore[index, call-overload]
    end = assistant(10, [text("In src/plum.py.")])
    end["parentUuid"] = compacted()[-1]["uuid"]
    (session,) = read_recorded(written(tmp_path / "a.jsonl", [*compacted(), side, synthetic, end]))
    words = [said.message.text for step in session.steps for said in (*step.heard, step.reply)]
    assert "The parser of pears is in src/pear.py." not in words
    assert words[0] == "Where is the parser of pears?"
    assert words[-2:] == ["And of plums?", "In src/plum.py."]
    assert "API Error" not in words
    assert "Another agent's task." not in words


def test_base_and_ratio_come_from_the_recorded_usage(tmp_path: Path) -> None:
    """C2: what the first request held beyond its words is the base; growth corrects the estimates."""
    lines: list[JsonObject] = []
    prompt = 20_000
    for number in range(1, 12, 2):
        lines.append(user(number, "x" * 4_000))
        lines.append(with_usage(assistant(number + 1, [text("y" * 400)]), prompt))
        prompt += round((1_000 + 100) * 1.5)
    (session,) = read_recorded(written(tmp_path / "a.jsonl", lines))
    assert session.ratio == pytest.approx(1.5, abs=0.01)
    assert session.base_tokens == pytest.approx(20_000 - 1_500, abs=20)
    assert session.error is not None
    assert session.error < 0.01
    assert session.peak_tokens == prompt - 1_650
    assert all(step.output_tokens == 150 for step in session.steps), "more was said than the stream counted"


def test_a_recording_that_begins_in_mid_conversation_has_no_giant_base(tmp_path: Path) -> None:
    lines = [user(1, "Go on."), with_usage(assistant(2, [text("Yes.")]), 150_000)]
    (session,) = read_recorded(written(tmp_path / "a.jsonl", lines))
    assert session.base_tokens == MAX_BASE


def test_a_recording_without_times_gets_a_fixed_pace(tmp_path: Path) -> None:
    """And one without usage has a ratio of one and no error to report."""
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
        {"role": "assistant", "content": "four"},
    ]
    path = tmp_path / "messages.json"
    path.write_text(json.dumps(messages))
    (session,) = read_recorded(path)
    assert not session.has_times
    assert session.steps[1].at - session.steps[0].at == PACE
    assert (session.ratio, session.error, session.base_tokens) == (1.0, None, 0)


def test_a_packed_file_reads_like_a_plain_one(tmp_path: Path) -> None:
    plain = read_recorded(written(tmp_path / "a.jsonl", conversation()))
    packed = read_recorded(written(tmp_path / "b" / "a.jsonl.gz", conversation(), packed=True))
    assert [one.steps for one in plain] == [one.steps for one in packed]


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "empty"), (b"hello there\n", "not a transcript"), (b'{"a": 1}\n', "not a transcript")],
)
def test_what_is_no_transcript_is_refused_with_a_reason(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(content)
    with pytest.raises(TranscriptError, match=word):
        read_recorded(path)


def test_a_session_of_one_record_has_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(ForeignTranscript, match="no reply"):
        read_recorded(written(tmp_path / "a.jsonl", [user(1, "Hello?")]))


def test_a_folder_is_looked_through_in_order(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl.gz", "deep/c.traj", "notes.txt", "README.md"):
        written(tmp_path / name, conversation())
    assert [path.name for path in files_in(tmp_path)] == ["a.jsonl.gz", "b.jsonl", "c.traj"]
