"""What a step used of what was said before, and whether it was still in view when it was used (P7)."""

from __future__ import annotations

import pytest

from nacre.devtools.cache_models.anthropic_render import estimate, render
from nacre.devtools.cache_models.anthropic_state import Rendered
from nacre.devtools.replay.run import IDENTIFIER, OLD_TOKENS, Reading, Retention, facts_of, needs
from nacre.devtools.replay.schema import Recorded
from nacre.messages.blocks import Block, JsonObject, Text, Thinking, ToolCall, ToolResult
from nacre.messages.wire import render_block
from tests.devtools.replay.made_up import asked

READ = "     9→def parse_pear(text):\n    10→    return split_all(text)\n    11→"


def told(*steps: tuple[list[Block], list[Block]]) -> Recorded:
    made = tuple(asked(i, heard, reply, at=i * 10.0) for i, (heard, reply) in enumerate(steps))
    return Recorded(name="told", steps=made)


def edit(old: str, **more: str) -> ToolCall:
    return ToolCall(
        "edit-1", "Edit", {"file_path": "src/pear.py", "old_string": old, "new_string": "", **more}
    )


def shown(*blocks: Block) -> list[Rendered]:
    return [render(render_block(b), level="messages", role="user", at=(0, 0), count=estimate) for b in blocks]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("see src/nacre/loop.py, line 296", ["src/nacre/loop.py", "296"]),
        ("call parse_pear and parsePlum or HTTPServer2", ["parse_pear", "parsePlum", "HTTPServer2"]),
        ("os.path.join fails with 'no such file'", ["os.path.join", "'no such file'"]),
        ("plain words, 12 of them, and a Name", []),
        ("~/.config/app.toml and /etc/hosts", ["~/.config/app.toml", "/etc/hosts"]),
    ],
)
def test_identifiers_are_paths_symbols_numbers_and_quoted_strings(line: str, found: list[str]) -> None:
    assert IDENTIFIER.findall(line) == found


def test_numbers_of_lines_that_a_tool_put_there_are_no_part_of_a_text() -> None:
    wire: JsonObject = {"type": "tool_result", "tool_use_id": "a", "content": READ}
    facts = facts_of(wire)
    assert "def parse_pear(text):\n    return split_all(text)" in facts.text
    assert facts.identifiers == {"parse_pear", "split_all"}


def test_pairs_are_neighbours_on_one_line_and_only_what_was_said_before_counts() -> None:
    need = needs(
        told(
            (
                [Text("Move parse_pear next to split_all.\nLeave join_all.")],
                [Text("parse_pear split_all join_all new_one")],
            )
        )
    )[0]
    assert [pair for pair, _ in need.pairs] == [("parse_pear", "split_all")]
    assert need.identifiers == {"parse_pear", "split_all", "join_all"}


def test_thinking_neither_says_nor_uses_anything() -> None:
    first, second = needs(
        told(
            ([Text("Begin.")], [Thinking("look_at this_file"), Text("Hm.")]),
            ([Text("Go on.")], [Thinking("Begin. look_at this_file"), Text("look_at this_file")]),
        )
    )
    assert not first.identifiers
    assert not second.identifiers
    assert not second.pairs


def test_an_edit_counts_where_its_old_text_was_seen_as_a_whole() -> None:
    """Lines are matched without the numbers the reader put in front of them."""
    seen, unseen = needs(
        told(
            ([ToolResult("r", (Text(READ),))], [edit("def parse_pear(text):\n    return split_all(text)")]),
            ([Text("Again.")], [edit("def something_else():")]),
        )
    )
    assert len(seen.edits) == 1
    assert not unseen.edits


def test_an_identifier_last_said_far_back_is_old() -> None:
    filler = Text("and so on " * (OLD_TOKENS // 2))
    _, near, far = needs(
        told(
            ([Text("Mind far_away.")], [Text("Yes.")]),
            ([Text("And next_door.")], [Text("far_away next_door")]),
            ([filler], [Text("next_door")]),
        )
    )
    assert not near.old
    assert far.old == {"next_door"}


def test_what_is_hidden_counts_against_the_policy_and_is_fetched_once_until_it_is_seen_again() -> None:
    """P7: one more request for each hidden block, not for each use of it."""
    said: list[Block] = [Text("parse_pear is in src/pear.py"), ToolResult("r", (Text(READ),))]
    uses: tuple[list[Block], list[Block]] = (
        [Text("Go.")],
        [Text("parse_pear is in src/pear.py"), edit("split_all(text)")],
    )
    need = needs(told(([*said], [Text("Hm.")]), uses))[1]
    retention = Retention(Reading())
    everything = shown(*said)
    retention.see(everything, 0)
    used, hidden = retention.check(need)
    assert (used.pairs_kept, used.edits_kept, hidden) == (used.pairs, used.edits, [])

    retention.see(shown(Text("A summary.")), 0)
    used, hidden = retention.check(need)
    assert (used.pairs_kept, used.edits_kept) == (0, 0)
    assert used.identifiers_kept == 0 < used.identifiers
    assert len(hidden) == 2
    assert all(source.tokens > 0 for source in hidden)
    assert retention.check(need)[1] == []

    retention.see(everything, 0)
    assert retention.check(need)[1] == []
    retention.see(shown(Text("A summary.")), 0)
    assert len(retention.check(need)[1]) == 2


def test_a_view_that_grows_is_followed_by_its_new_blocks_alone() -> None:
    first, second = shown(Text("one_thing other_thing"), Text("third_thing"))
    need = needs(
        told(([Text("one_thing other_thing third_thing")], [Text("one_thing other_thing third_thing")]))
    )[0]
    retention = Retention(Reading())
    retention.see([first], 0)
    assert retention.check(need)[0].identifiers_kept == 2
    retention.see([first, second], 1)
    assert retention.check(need)[0].identifiers_kept == 3
    retention.see([second], 0)
    assert retention.check(need)[0].identifiers_kept == 1
