"""Notes without a model: what the log says, section by section, within the budgets."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nacre.layers.l3_notes.by_rule import by_rule
from nacre.layers.l3_notes.policy import NACRE, NotesSettings
from nacre.layers.l3_notes.template import TEMPLATE, NotesTemplate, mended, sections, sizes
from nacre.messages.blocks import Text, ToolCall, ToolResult
from nacre.messages.facts import Facts
from nacre.messages.jsonl import decode
from nacre.tools.tasks import Task
from tests.layers.l3_notes.scenes import said, work

DATA = Path(__file__).parents[4] / "shared" / "data" / "claude_code_sessions" / "raw"
RECORDED = sorted(DATA.glob("*.jsonl.gz"))[::8]


def a_session() -> Facts:
    records = [
        said("u1", "user", "Find out why the lexer drops tabs, see https://example.org/tabs please"),
        said("a1", "assistant", ToolCall("c1", "Read", {"file_path": "/p/lexer.py"})),
        said("r1", "user", ToolResult("c1", (Text("def lex(): ..."),))),
        said("a2", "assistant", ToolCall("c2", "Bash", {"command": "pytest -q"})),
        said("r2", "user", ToolResult("c2", (Text("Exit code 1\nE  assert 1 == 2"),), is_error=True)),
        said(
            "a3",
            "assistant",
            ToolCall("c3", "Edit", {"file_path": "/p/lexer.py", "old_string": "a", "new_string": "b"}),
        ),
        said("r3", "user", ToolResult("c3", (Text("Edited"),))),
        said("a4", "assistant", ToolCall("c4", "Bash", {"command": "pytest -q"})),
        said("r4", "user", ToolResult("c4", (Text("1 passed"),))),
        said("a5", "assistant", "Tabs are kept now."),
        said("u2", "user", "# Worklog\nthanks, now the parser"),
    ]
    return Facts.of(records)


def test_the_sections_are_filled_from_the_log() -> None:
    """C17: title, state with open tasks, words, files, commands with their ends, errors, links, actions."""
    tasks = [Task("lexer", "done"), Task("parser", "in_progress"), Task("docs")]
    notes = {one.name: one.body for one in sections(by_rule(a_session(), tasks), TEMPLATE)}
    assert notes["session title"] == "Find out why the lexer drops tabs, see https://example.org/tabs please"
    assert notes["current state"] == (
        "- Last asked: # Worklog thanks, now the parser\n- [>] parser\n- [ ] docs\n"
        "- Last said: Tabs are kept now."
    )
    assert "Find out why the lexer drops tabs" in notes["task specification"]
    assert "# Worklog\nthanks, now the parser" in notes["task specification"]
    assert notes["files and functions"] == "- /p/lexer.py (changed)"
    assert notes["workflow"] == "- `pytest -q` (exit 0, 2 times)"
    assert "pytest -q" in notes["errors & corrections"]
    assert notes["codebase and system documentation"] == "- https://example.org/tabs"
    assert notes["learnings"] == ""
    assert notes["key results"] == "- Tabs are kept now."
    assert notes["worklog"].count("pytest") == 2


def test_where_nothing_happened_there_is_nothing_to_note() -> None:
    assert by_rule(Facts()) == ""


@pytest.mark.slow
def test_long_sessions_stay_within_every_budget_and_keep_the_newest() -> None:
    """C15, C17."""
    text = by_rule(Facts.of(work(2_000, tokens=1)))
    found = sizes(text, TEMPLATE)
    assert max(found.values()) <= NACRE.section_tokens
    assert sum(found.values()) <= NACRE.total_tokens
    assert "make step1999" in text
    small = NotesSettings(section_tokens=300, total_tokens=1_000)
    assert sum(sizes(by_rule(Facts.of(work(500)), settings=small), TEMPLATE).values()) <= 1_000


def test_a_persons_template_gets_what_has_a_name_there() -> None:
    """C13: other headings stay as the person wrote them."""
    template = NotesTemplate.of("# Aim\n_Why._\nas agreed\n\n# workflow\n_How._\n")
    assert template is not None
    assert by_rule(a_session(), template=template) == (
        "# Aim\n_Why._\n\nas agreed\n\n# workflow\n_How._\n\n- `pytest -q` (exit 0, 2 times)\n"
    )


@pytest.mark.real_data
@pytest.mark.skipif(not RECORDED, reason="the folder of recorded sessions is not beside the project")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recorded_sessions_give_notes_in_form_and_within_budget(path: Path) -> None:
    """C13, C15, C17: whatever people and tools said in them."""
    records = decode(gzip.decompress(path.read_bytes()).splitlines(keepends=True)).records
    facts = Facts.of(records)
    text = by_rule(facts)
    assert text
    assert mended("", text, TEMPLATE) == text
    assert sum(sizes(text, TEMPLATE).values()) <= NACRE.total_tokens
    notes = {one.name: one.body for one in sections(text, TEMPLATE)}
    assert bool(notes["workflow"]) == bool(facts.commands())
    assert bool(notes["files and functions"]) == bool(facts.files())
    if facts.words:
        assert " ".join(facts.words[0].text.split()).startswith(notes["session title"])
