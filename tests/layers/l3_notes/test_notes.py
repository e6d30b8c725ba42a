"""The update: what the fork is asked and allowed, and that the old notes outlive everything it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.errors import ProviderError, StoreError
from nacre.layers.l3_notes.by_rule import by_rule
from nacre.layers.l3_notes.notes import (
    NotesFile,
    NotesUnchangedError,
    directive,
    is_by_rule,
    marked,
    unmarked,
    update,
)
from nacre.layers.l3_notes.policy import NotesSettings
from nacre.layers.l3_notes.template import TEMPLATE, NotesForm, sections
from nacre.loop.fork import ForkResult, ForkTask
from nacre.messages.facts import Facts
from nacre.messages.tokens import estimate_text
from nacre.messages.view import View
from tests.layers.l3_notes.scenes import EditingFork, work

VIEW = View.of(work(2))
OLD = TEMPLATE.text + "\n- old step\n"
Edit = Callable[[str], str]


def added(line: str) -> Edit:
    return lambda text: text + line + "\n"


@pytest.fixture
def file(tmp_path: Path) -> NotesFile:
    return NotesFile.of(tmp_path)


async def test_an_update_says_what_it_covers_and_leaves_the_form_intact(file: NotesFile) -> None:
    """C13, C14: headings a model dropped come back; the file is whole and for the owner only."""
    file.write(OLD)
    fork = EditingFork(file, lambda text: text.replace("# Learnings\n", "") + "- new step\n")
    done = await update(VIEW, file, fork=fork, form=NotesForm())
    assert done.covers == "e1"
    assert file.read() == done.text
    assert sections(done.text, TEMPLATE)[9].body == "- old step\n- new step"
    assert "# Learnings\n" in done.text
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in file.path.parent.iterdir()] == ["summary.md"]


async def test_the_fork_may_edit_that_one_file_and_knows_its_text(file: NotesFile) -> None:
    """C14, F1: under its own name, on the view as it was, within its rounds."""
    fork = EditingFork(file, added("- x"))
    await update(VIEW, file, fork=fork, form=NotesForm(), settings=NotesSettings(max_rounds=4))
    (errand,) = fork.errands
    assert errand.source == "session_memory"
    assert errand.access is not None
    assert (errand.access.tools, errand.access.writes_in) == (frozenset({"Edit", "Read"}), (file.path,))
    assert (errand.max_rounds, errand.view, errand.shown_files) == (4, VIEW, (file.path,))
    assert TEMPLATE.text.strip() in errand.directive
    assert str(file.path) in errand.directive


@pytest.mark.parametrize(
    "edit",
    [lambda text: text, lambda text: "", lambda text: TEMPLATE.text, lambda text: "\n" + text],
    ids=["nothing", "emptied", "bare", "blank lines only"],
)
@pytest.mark.parametrize("old", [OLD, "", marked(by_rule(Facts.of(work(1))))], ids=["model", "none", "rules"])
async def test_a_fork_that_did_nothing_or_emptied_the_notes_leaves_the_old_ones(
    file: NotesFile, edit: Edit, old: str
) -> None:
    file.write(old)
    with pytest.raises(NotesUnchangedError):
        await update(VIEW, file, fork=EditingFork(file, edit), form=NotesForm())
    assert file.read() == old


async def test_a_fork_that_fails_half_way_leaves_the_old_notes(file: NotesFile) -> None:
    file.write(OLD)

    async def fork(errand: ForkTask) -> ForkResult:
        file.write("half an edit")
        raise ProviderError("gone")

    with pytest.raises(ProviderError):
        await update(VIEW, file, fork=fork, form=NotesForm())
    assert file.read() == OLD


async def test_a_fork_that_is_cancelled_leaves_the_old_notes(file: NotesFile) -> None:
    file.write(OLD)
    began = asyncio.Event()

    async def fork(errand: ForkTask) -> ForkResult:
        file.write("half an edit")
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    running = asyncio.create_task(update(VIEW, file, fork=fork, form=NotesForm()))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert file.read() == OLD


async def test_what_rules_wrote_is_not_edited_but_written_anew(file: NotesFile) -> None:
    """C17: it would cost more to quote it than to leave it; what was done rides in the directive."""
    facts = Facts.of(work(2))
    file.write(marked(by_rule(facts)))
    fork = EditingFork(file, added("- x"))
    done = await update(VIEW, file, fork=fork, form=NotesForm())
    assert [one.body for one in sections(done.text, TEMPLATE) if one.body] == ["- x"]
    assert "make step1" in fork.errands[0].directive
    assert not is_by_rule(file.read())


@pytest.mark.parametrize("is_newest_first", [False, True], ids=["at the end", "at the beginning"])
async def test_a_model_that_only_appends_grows_neither_the_file_nor_the_request(
    file: NotesFile, *, is_newest_first: bool
) -> None:
    """C15: the newest lines and all headings stay, and the update says which sections were cut."""
    small = NotesSettings(section_tokens=200, total_tokens=500)
    most = 750 + estimate_text(TEMPLATE.text)

    def appended(text: str) -> str:
        for one in TEMPLATE.sections:
            line = f"- step {len(fork.errands)} of {one.name} {'x' * 100}"
            body = sections(text, TEMPLATE)[TEMPLATE.headings[one.name]].body
            new = f"{line}\n{body}" if is_newest_first else f"{body}\n{line}"
            new = f"{one.description}\n\n{new.strip()}"
            text = text.replace(f"{one.description}\n\n{body}" if body else one.description, new)
        return text

    fork = EditingFork(file, *[appended] * 30)
    for n in range(1, 31):
        done = await update(VIEW, file, fork=fork, form=NotesForm(), settings=small)
        assert estimate_text(file.read()) <= most
        assert all(f"step {n} of" in one.body for one in sections(done.text, TEMPLATE))
        assert bool(done.cut) == (n > 2)
    empty = directive(file, "", form=NotesForm(), settings=small)
    for errand in fork.errands:
        assert estimate_text(errand.directive) <= most + estimate_text(empty) + 300, "with what to condense"
    assert "step 1 of" not in file.read()


async def test_notes_that_are_too_long_are_cut_before_they_are_quoted(file: NotesFile) -> None:
    """C15: what is quoted is what the file holds, or no edit would find its text; a failure cuts nothing."""
    long = TEMPLATE.text + "\n".join(f"- step {n:033}" for n in range(2_000)) + "\n"
    file.write(long)
    seen: list[str] = []

    def read(text: str) -> str:
        seen.append(text)
        return text

    fork = EditingFork(file, read, added("- x"))
    with pytest.raises(NotesUnchangedError):
        await update(VIEW, file, fork=fork, form=NotesForm())
    assert file.read() == long
    assert seen[0].strip() in fork.errands[0].directive
    assert estimate_text(seen[0]) < 3_500
    done = await update(VIEW, file, fork=fork, form=NotesForm())
    assert done.cut == ("# Worklog",)
    assert done.text.endswith(f"- step {1_999:033}\n- x\n")


def test_long_sections_are_to_be_condensed_and_short_ones_are_not_mentioned(file: NotesFile) -> None:
    """C15."""
    long = TEMPLATE.text + "x" * 9_000
    asked = directive(file, long, form=NotesForm())
    assert "- # Worklog: about 2,250 tokens" in asked
    assert "condensed" not in directive(file, OLD, form=NotesForm())


def test_a_persons_prompt_gets_what_it_asks_for_and_is_told_what_to_condense(file: NotesFile) -> None:
    """C13: one pass; both spellings; what it does not ask for it does not get, but for budgets."""
    form = NotesForm(prompt="Edit {{notesPath}}:\n{{currentNotes}}\n{{other}}")
    notes = TEMPLATE.text + "{{path}} $1\n"
    assert directive(file, notes, form=form) == f"Edit {file.path}:\n{notes.strip()}\n{{{{other}}}}"
    assert "# Worklog: about" in directive(file, TEMPLATE.text + "x" * 9_000, form=form)


def test_what_rules_wrote_is_known_until_somebody_changes_it() -> None:
    text = marked("a\n\nb\n")
    assert is_by_rule(text)
    assert not is_by_rule(text.replace("b", "c"))
    assert not is_by_rule("a\n\nb\n")
    assert unmarked(text).strip() == "a\n\nb"


def test_a_link_in_the_place_of_the_notes_is_not_followed(tmp_path: Path) -> None:
    """F3: whoever may write one file must not reach another through it."""
    file = NotesFile.of(tmp_path)
    file.path.parent.mkdir()
    (tmp_path / "other.md").write_text("secret", encoding="utf-8")
    file.path.symlink_to(tmp_path / "other.md")
    with pytest.raises(StoreError):
        file.read()
