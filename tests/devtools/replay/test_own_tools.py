"""Recordings with nacre's own tools: pages are paid for, and what was used is fetched before it is used."""

from __future__ import annotations

import pytest

from nacre.devtools.replay.own_tools import LEAST_LINES, OwnTools, with_own_tools
from nacre.devtools.replay.policies import NACRE_TOOLS, NONE
from nacre.devtools.replay.run import ReplayTerms, needs, replay, totals
from nacre.devtools.replay.schema import Recorded
from nacre.layers.l1_offload.references import page_of
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.tools.read import ReadSettings
from tests.devtools.replay.made_up import asked

LINES = [
    line
    for n in range(500)
    for line in (f"def step_{n}(value):", f"    return value_{n} + total_{n}", "", "")
]
TERMS = ReplayTerms(model="claude-opus-5-5")


def session(used: str, *, limit: int | None = None, tool: str = "Read", lines: list[str] = LINES) -> Recorded:
    """A file is read as Claude Code shows it, something is said, then this text of it is replaced."""
    arguments = {"file_path": "steps.py", **({"limit": limit} if limit else {})}
    text = "\n".join(f"{n:>6}→{line}" for n, line in enumerate(lines, 1))
    edit = ToolCall("c2", "Edit", {"file_path": "steps.py", "old_string": used, "new_string": "pass"})
    steps = (
        asked(0, [Text("Tidy up.")], [ToolCall("c1", tool, {**arguments})], at=0),
        asked(1, [ToolResult("c1", (Text(text),))], [Text("I see."), edit], at=5),
        asked(2, [ToolResult("c2", (Text("done"),))], [Text("Done.")], at=10),
    )
    return Recorded(name="made-up", steps=steps, base_tokens=1_000)


def texts(recorded: Recorded) -> list[str]:
    return [
        block.text
        for step in recorded.steps
        for said in step.heard
        for block in said.blocks
        if isinstance(block, ToolResult)
    ]


def test_lines_that_a_reply_used_are_fetched_by_one_more_request() -> None:
    before = session("    return value_300 + total_300")
    after = with_own_tools(before, OwnTools(around=10, least_lines=0))
    page, fetched, done = texts(after)
    assert len(after.steps) == len(before.steps) + 1 and done == "done"
    assert ("Lines 1-" in page and "value_300" not in page and "step_499" in page) or "more names" in page
    part = page_of(fetched)
    assert part is not None and part.first == 1192 and len(part.lines) == 21
    assert "    return value_300 + total_300" in part.lines
    (call,) = after.steps[1].reply.blocks
    assert isinstance(call, ToolCall) and call.input == {"file_path": "steps.py", "offset": 1192, "limit": 21}
    assert after.steps[2].reply == before.steps[1].reply and after.steps[1].output_tokens > 0
    assert len(needs(before)[1].edits) == len(needs(after)[2].edits) == 1
    (kept,) = totals(replay([after], [NONE], TERMS)).values()
    assert kept.used.edits_kept == kept.used.edits == 1 and kept.requests == 4


def test_a_part_of_every_page_is_read_in_any_case_and_its_request_is_a_cost() -> None:
    before = session("def step_0(value):\n    return value_0 + total_0")
    after = NACRE_TOOLS.prepare(before)
    page, fetched, _ = texts(after)
    part = page_of(fetched)
    assert part is not None and len(part.lines) == LEAST_LINES + 1 and "value_0" in page
    assert [step.is_added for step in after.steps] == [False, True, False, False]
    paid = totals(replay([before], [NONE, NACRE_TOOLS], TERMS))
    assert paid["none"].reply_usd == pytest.approx(paid["nacre-tools"].reply_usd)
    assert paid["nacre-tools"].requests > paid["none"].requests


def test_what_the_page_shows_is_not_fetched() -> None:
    after = with_own_tools(
        session("def step_0(value):\n    return value_0 + total_0"), OwnTools(least_lines=0)
    )
    assert len(after.steps) == 3


@pytest.mark.parametrize(
    "recorded",
    [
        session("    return value_3 + total_3", limit=2_000),
        session("    return value_3 + total_3", tool="Cat"),
        session("    return value_3 + total_3", lines=LINES[:200]),
    ],
    ids=["a range", "another tool", "a small file"],
)
def test_other_results_stay_whole(recorded: Recorded) -> None:
    after = with_own_tools(recorded, OwnTools(squeezes=False))
    assert after == recorded


def test_without_pages_only_the_form_changes() -> None:
    before = session("    return value_300 + total_300")
    after = with_own_tools(before, OwnTools(read=ReadSettings(page_chars=0)))
    assert len(after.steps) == 3
    page = page_of(texts(after)[0])
    assert page is not None and list(page.lines) == LINES and page.width == 0


def test_results_of_commands_and_searches_get_the_shorter_form() -> None:
    found = "a.py:1:x = 1\na.py-2-y\n--\nb-1-c.py:7:x = 2"
    steps = (
        asked(
            0,
            [Text("Look.")],
            [
                ToolCall("c1", "Grep", {"pattern": "x", "output_mode": "content"}),
                ToolCall("c2", "Bash", {"command": "make"}),
                ToolCall("c3", "Grep", {"pattern": "x"}),
            ],
            at=0,
        ),
        asked(
            1,
            [
                ToolResult("c1", (Text(found),)),
                ToolResult("c2", (Text("\x1b[31mbad\x1b[0m\n" + "warning here\n" * 5),)),
                ToolResult("c3", (Text("a.py\nb-1-c.py"),)),
            ],
            [Text("Done.")],
            at=5,
        ),
    )
    after = with_own_tools(Recorded(name="made-up", steps=steps), OwnTools())
    assert texts(after) == [
        "a.py\n1:x = 1\n2-y\n\nb-1-c.py\n7:x = 2",
        "bad\nwarning here\n(repeated 4 more times)\n",
        "a.py\nb-1-c.py",
    ]
