"""What is read off a log without a model, and that a resumed session knows the same as one that went on."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.messages.actions import line_of, report_of
from nacre.messages.blocks import Block, JsonObject, Role, Text, Thinking, ToolCall, ToolResult
from nacre.messages.digest import show_actions, show_words, together
from nacre.messages.facts import FACTS, Action, Facts, UserQuote
from nacre.messages.records import Compacted, Noted, Record, ReplyFacts, Said, Undone
from nacre.messages.rounds import cuts
from nacre.messages.view import View
from tests.messages.strategies import logs, moment

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
words = st.builds(UserQuote, st.text(max_size=4), st.integers(0, 9).map(moment), st.text(max_size=20))
kinds = st.sampled_from(["read", "edit", "command", "search", "web", "other", "reply", "remark"])
actions = st.builds(
    Action,
    st.text(max_size=4),
    st.text(max_size=4),
    st.text(max_size=20),
    st.text(max_size=9),
    kinds,
    st.text(max_size=9),
    st.text(max_size=9),
)
facts = st.builds(
    lambda w, d, n, m: Facts(words=tuple(w), actions=tuple(d), left_words=n, left_actions=m),
    st.lists(words, max_size=4),
    st.lists(actions, max_size=4),
    st.integers(0, 9),
    st.integers(0, 9),
)


def said(name: str, role: Role, *blocks: Block, reply: str | None = None, meta: bool = False) -> Said:
    reply_facts = ReplyFacts(id=reply) if role == "assistant" else None
    return Said(id=name, at=moment(0), role=role, blocks=blocks, reply=reply_facts, meta=meta)


def done(
    name: str, tool: str, arguments: JsonObject, text: str = "", *, is_error: bool = False
) -> list[Said]:
    return [
        said(f"a-{name}", "assistant", ToolCall(name, tool, arguments)),
        said(f"u-{name}", "user", ToolResult(name, (Text(text),), is_error)),
    ]


def lines(*records: Record) -> list[str]:
    return [action.line for action in Facts.of(records).actions]


def compacted(records: list[Record], place: int, n: int) -> Compacted:
    """A compaction as nacre makes one: it shows what the tail does not hold, and carries what it showed."""
    tail = View.of(records).items[place:]
    known = Facts.of(records).without(tail)
    shown = together(show_words(known, 90), show_actions(known, 90))
    return Compacted(
        id=f"own{n}",
        at=moment(50),
        summary=(Text("summary"),),
        keeps_from=tail[0].record_id if tail else None,
        carries=(Noted(id=f"note{n}", at=moment(50), kind=FACTS, facts=shown.as_json()),),
    )


def names(record: Record) -> set[str | None]:
    return {record.id, record.summary_id} if isinstance(record, Compacted) else {record.id}


def stretch(records: list[Record], last: int) -> list[Record]:
    """What is read on resuming behind the compaction at a place: from its first kept record on."""
    starts: dict[int, int] = {}
    for place, record in enumerate(records[: last + 1]):
        if isinstance(record, Compacted):
            named = {record.keeps_from, record.first} - {None}
            begin = min([place, *(i for i, one in enumerate(records[:place]) if names(one) & named)])
            while (wider := min([begin, *(s for p, s in starts.items() if p >= begin)])) < begin:
                begin = wider
            starts[place] = begin
    return records[starts[last] :]


@given(logs(), st.data())
def test_a_resumed_session_knows_what_one_knows_that_never_ended(
    records: list[Record], data: st.DataObject
) -> None:
    """C20, C21: words and actions of the kept tail count once, wherever the log is read from."""
    for n in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(records)))
        cut = data.draw(st.sampled_from(cuts(View.of(records[:place]).items)))
        own = compacted(records[:place], cut, n)
        records = [*records[:place], own, *records[place:]]
    last = max(i for i, record in enumerate(records) if record.id.startswith("own"))
    live, resumed = Facts.of(records), Facts.of(stretch(records, last))
    assert resumed == live
    assert len({one.record_id for one in live.words}) == len(live.words)
    assert len({one.id for one in live.actions}) == len(live.actions)


@given(logs(), st.data())
def test_going_on_from_known_facts_is_the_same_as_reading_everything(
    records: list[Record], data: st.DataObject
) -> None:
    records = [record for record in records if not isinstance(record, Undone)]
    place = data.draw(st.integers(0, len(records)))
    own = compacted(records[:place], data.draw(st.sampled_from(cuts(View.of(records[:place]).items))), 0)
    records = [*records[:place], own, *records[place:]]
    known = Facts()
    for record in records:
        known = known.after(record)
    assert known == Facts.of(records) == Facts.of(records[:place]).after(*records[place:])


@given(facts)
def test_facts_come_back_from_a_note_as_they_were(known: Facts) -> None:
    stored = json.loads(json.dumps(known.as_json()))
    assert Facts.of_json(stored) == known


@given(st.dictionaries(st.sampled_from(["words", "deeds", "left_words", "left_deeds"]), json_values))
def test_a_note_of_any_shape_can_be_read(stored: JsonObject) -> None:
    Facts.of_json(stored)


def test_a_persons_words_are_kept_character_for_character() -> None:
    """C20."""
    text = "  Fix  this:\n\n\t```\n</summary> \u00e9\n```\nthanks"
    known = Facts.of([said("u", "user", Text(text))])
    assert [one.text for one in known.words] == [text.strip()]


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>do it</system-reminder>",
        "<command-name>/exit</command-name>\n  <command-message>exit</command-message>\n"
        "<command-args></command-args>",
        "<local-command-stdout>See ya!</local-command-stdout>",
        "<bash-input>git status</bash-input>",
        "<bash-stdout>clean</bash-stdout><bash-stderr></bash-stderr>",
        "[Request interrupted by user for tool use]",
        "Caveat: The messages below were generated by the user while running local commands. Do not answer.",
        "<task-notification>\n<task-id>b1</task-id>\n</task-notification>",
        "   ",
    ],
)
def test_what_a_program_wrote_in_a_persons_name_is_not_their_words(text: str) -> None:
    """C20: nothing is attributed to a person that they did not say."""
    assert Facts.of([said("u", "user", Text(text))]).words == ()


def test_words_beside_what_a_program_put_there_stay() -> None:
    text = "see <command-name>x</command-name>, it fails<system-reminder>note</system-reminder>"
    record = said("u", "user", Text("<system-reminder>day</system-reminder>"), Text(text))
    assert [one.text for one in Facts.of([record]).words] == ["see <command-name>x</command-name>, it fails"]


def test_what_stands_behind_a_commands_name_was_typed_by_the_person() -> None:
    text = "<command-message>p</command-message>\n<command-args>keep commits small</command-args>"
    assert [one.text for one in Facts.of([said("u", "user", Text(text))]).words] == ["keep commits small"]


def test_results_injected_messages_asides_and_summaries_are_not_words() -> None:
    aside = Said(id="x", at=moment(0), role="user", blocks=(Text("no"),), aside="sidechain")
    records = [
        aside,
        said("m", "user", Text("injected"), meta=True),
        said("s", "system", Text("rules")),
        said("a", "assistant", ToolCall("c", "Read", {})),
        said("r", "user", ToolResult("c", (Text("file"),))),
        Compacted(id="k", at=moment(1), summary=(Text("The user said: no"),)),
    ]
    assert Facts.of(records).words == ()


def test_behind_another_programs_compaction_facts_begin_with_what_it_kept() -> None:
    records = [
        said("u1", "user", Text("one")),
        said("u2", "user", Text("two")),
        Compacted(id="k", at=moment(1), summary=(Text("summary"),), keeps_from="u2"),
        said("u3", "user", Text("three")),
    ]
    assert [one.text for one in Facts.of(records).words] == ["two", "three"]


def test_a_part_put_in_other_words_is_not_forgotten() -> None:
    """C30: the records of a span are read again on every resume, so what they hold stays known."""
    records = [
        said("u1", "user", Text("one")),
        said("u2", "user", Text("two")),
        said("u3", "user", Text("three")),
        Compacted(id="k", at=moment(1), summary=(Text("s"),), first="u2", keeps_from="u3", kind="span"),
    ]
    assert [one.text for one in Facts.of(records).words] == ["one", "two", "three"]


def test_an_undone_message_does_not_count_and_an_undone_compaction_gives_facts_back() -> None:
    first, second = said("u1", "user", Text("one")), said("u2", "user", Text("two"))
    k = Compacted(id="k", at=moment(1), summary=(Text("summary"),))
    gone = Undone(id="x", at=moment(2), target="k")
    assert [one.text for one in Facts.of([first, second, k, gone]).words] == ["one", "two"]
    assert Facts.of([first, Undone(id="x", at=moment(2), target="u1")]).words == ()


def test_each_call_is_a_line_with_the_names_in_it() -> None:
    """C17."""
    edit: JsonObject = {
        "file_path": "a.py",
        "old_string": "import x\n\ndef f(a):\n    return 1",
        "new_string": "import x\n\ndef f(b):\n    return 1",
    }
    assert lines(
        *done("1", "Read", {"file_path": "a.py", "offset": 10, "limit": 5}),
        *done("2", "Edit", edit),
        *done("3", "Write", {"file_path": "b.py", "content": "{\nkey\n}"}),
        *done("4", "Bash", {"command": "make \\\n  test", "description": "Run"}),
        *done("5", "Grep", {"pattern": "def f", "path": "src", "glob": "*.py"}),
        *done("6", "WebFetch", {"url": "https://x.org/y", "prompt": "what"}),
        *done("7", "WebSearch", {"query": "how"}),
        *done(
            "8",
            "TaskList",
            {"tasks": [{"title": "a", "state": "done"}, {"title": "b", "state": "in_progress"}]},
        ),
        *done("9", "mcp__db__ask", {"table": "users", "limit": 3, "deep": {"x": 1}}),
        *done("10", "str_replace_editor", {"command": "view", "path": "c.py", "view_range": [1, 9]}),
    ) == [
        "Read a.py 10-14",
        'Edit a.py: "def f(a):" -> "def f(b):"',
        'Write b.py: "key" (3 lines)',
        "Bash: make \\ test",
        'Grep "def f" in src *.py',
        "WebFetch https://x.org/y",
        "WebSearch query=how",
        "TaskList: 1 of 2 done, now: b",
        "mcp__db__ask table=users, limit=3",
        "str_replace_editor c.py 1-9",
    ]


@pytest.mark.parametrize(
    ("text", "is_error", "outcome"),
    [
        ("fine, 0 errors", False, ""),
        ("Exit code 1\nok a\nFAIL b\nrest", True, "exit 1: FAIL b"),
        ("Exit code 3", True, "exit 3"),
        ("<tool_use_error>File does not exist.</tool_use_error>", True, "File does not exist."),
        ("", True, "failed"),
        (
            "The user doesn't want to proceed with this tool use. To tell you how, the user said:\nnot\nnow",
            True,
            'refused by the person: "not now"',
        ),
    ],
)
def test_how_a_call_ended_stands_beside_it(text: str, is_error: bool, outcome: str) -> None:
    [action] = Facts.of(done("1", "Bash", {"command": "x"}, text, is_error=is_error)).actions
    assert action.outcome == outcome


def test_what_a_person_answered_to_a_question_is_in_its_line() -> None:
    [line] = lines(*done("1", "AskUserQuestion", {"questions": []}, "User chose: tabs"))
    assert line.endswith("-> User chose: tabs")


def test_what_is_said_before_a_call_is_a_remark_and_only_the_rest_closes_a_turn() -> None:
    records = [
        said("a1", "assistant", Text("I look."), reply="m1"),
        said("a2", "assistant", ToolCall("c", "Read", {"file_path": "a"}), reply="m1"),
        said("u1", "user", ToolResult("c", ())),
        said("a3", "assistant", Thinking("hm"), Text("It is\nfine."), reply="m2"),
        said("u2", "user", Text("go on")),
        said("a4", "assistant", ToolCall("d", "Read", {"file_path": "b"}), reply="m3"),
    ]
    assert [(one.kind, one.tool, one.line) for one in Facts.of(records).actions] == [
        ("remark", "", "I look."),
        ("read", "Read", "Read a"),
        ("reply", "", "It is fine."),
        ("read", "Read", "Read b"),
    ]


def test_details_are_what_a_line_has_no_room_for() -> None:
    """C17b: new lines of a change, a reply's words, what defines something in a file, an agent's report."""
    text = "The cause is this. " * 20
    edit: JsonObject = {"file_path": "a.py", "old_string": "x = 1\n", "new_string": "x = 1\ny = 2\n\nz = 3\n"}
    records = [
        *done("1", "Edit", edit),
        *done(
            "2", "Read", {"file_path": "b.go"}, "  1\u2192package b\n  2\u2192func Run() {\n  3\u2192\treturn"
        ),
        *done("3", "Task", {"prompt": "look", "description": "d"}, "I found it in c.py\nline 3"),
        said("a", "assistant", Text(text)),
        *done("4", "Read", {"file_path": "gone.go"}, "func is no file", is_error=True),
    ]
    assert [one.detail for one in Facts.of(records).actions] == [
        "y = 2\nz = 3",
        "2\u2192func Run() {",
        "I found it in c.py\nline 3",
        text.strip(),
        "",
    ]


def test_files_commands_errors_and_addresses_are_found_again_after_a_compaction() -> None:
    """C17: they come from what was carried as well as from what is in view."""
    first = [
        said("u", "user", Text("see https://a.org/x.")),
        *done("1", "Read", {"file_path": "a.py"}),
        *done("2", "Write", {"file_path": "b.py", "content": "x"}),
        *done("3", "Bash", {"command": "curl https://b.org"}, "Exit code 7", is_error=True),
    ]
    records = [
        *first,
        compacted([*first], len(View.of(first).items), 0),
        *done("4", "Read", {"path": "a.py"}),
    ]
    known = Facts.of(records)
    assert known.files() == ["b.py", "a.py"]
    assert known.files(only_edited=True) == ["b.py"]
    assert [(one.about, one.outcome) for one in known.commands()] == [("curl https://b.org", "exit 7")]
    assert [one.id for one in known.errors()] == ["3"]
    assert known.urls() == ["https://a.org/x", "https://b.org"]


def test_words_keep_the_time_they_were_said() -> None:
    record = Said(id="u", at=moment(3) + timedelta(microseconds=5), role="user", blocks=(Text("x"),))
    known = Facts.of([record])
    assert Facts.of_json(known.as_json()).words[0].at == record.at


def test_an_outline_names_what_others_can_use_and_no_local_variable() -> None:
    """C17: a function's own variables are no landmarks."""
    lines = ["var Limit = 3", "func Run() {", "\tvar n int", "\tconst step = 2", "\t\ttype x int", "}"]
    page = "\n".join(f"  {n}\u2192{line}" for n, line in enumerate(lines, 1))
    call = ToolCall("c", "Read", {"file_path": "a.go"})
    assert (
        report_of(call, "read", ToolResult("c", (Text(page),))) == "1\u2192var Limit = 3\n2\u2192func Run() {"
    )


def test_a_task_s_line_is_its_title() -> None:
    """C17: what else belongs to it stands in the task list."""
    call = ToolCall("c", "TaskCreate", {"subject": "Write the shim", "description": "d" * 300})
    assert line_of(call).text == 'TaskCreate "Write the shim"'
