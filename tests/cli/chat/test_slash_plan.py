"""`/plan` in a chat: see it, set it, change it in an editor, remove it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from nacre.cli.chat.slash import plan
from nacre.context.plan import Plan
from nacre.errors import StoreError
from nacre.testing import FrozenClock
from tests.cli.chat.test_chat import chat, logs


@pytest.fixture
def planning(clock: FrozenClock, tmp_path: Path) -> Plan:
    return Plan(tmp_path / "session")


def editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
    """An editor that does this with `path`."""
    script = tmp_path / "editor.py"
    script.write_text(f"import sys, pathlib\npath = pathlib.Path(sys.argv[1])\n{code}\n")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")


def test_a_plan_is_set_shown_and_removed(planning: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    for text, said in (
        ("", "there is no plan; /plan TEXT sets one"),
        ("clear", "there was no plan"),
        ("1. Look.\n2. Mend.", f"the plan is set ({planning.path}); the model sees it with"),
        ("", "1. Look.\n2. Mend.\n"),
        ("1. Look.\n2. Mend.", "the plan is unchanged"),
        ("clear", "the plan is removed"),
        ("", "there is no plan"),
    ):
        plan(planning, text, asyncio.run)
        assert capsys.readouterr().out.startswith(said)


def test_a_plan_is_changed_in_the_persons_editor(
    planning: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    editor(monkeypatch, tmp_path, "path.write_text(path.read_text() + '2. Mend.')")
    asyncio.run(planning.write("1. Look."))
    plan(planning, "edit", asyncio.run)
    assert asyncio.run(planning.read()) == "1. Look.\n2. Mend.\n"
    editor(monkeypatch, tmp_path, "pass")
    plan(planning, "edit", asyncio.run)
    editor(monkeypatch, tmp_path, "path.write_text('')")
    plan(planning, "edit", asyncio.run)
    said = capsys.readouterr().out
    assert "the plan is unchanged" in said and said.endswith("the plan is removed\n")
    assert asyncio.run(planning.read()) == ""


@pytest.mark.parametrize("code", ["sys.exit(3)", "path.write_bytes(b'\\xff')", "path.unlink()"])
def test_an_editor_that_fails_leaves_the_plan_as_it_was(
    planning: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> None:
    asyncio.run(planning.write("1. Look."))
    editor(monkeypatch, tmp_path, code)
    with pytest.raises(Exception, match=r"nothing was changed|is unchanged"):
        plan(planning, "edit", asyncio.run)
    assert asyncio.run(planning.read()) == "1. Look.\n"


def test_what_was_edited_is_not_lost_where_it_cannot_be_kept(
    planning: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor(monkeypatch, tmp_path, "path.write_text('1. Look.')")
    (tmp_path / "session").write_text("in the way")
    monkeypatch.setattr(Plan, "read", nothing)  # a path that nobody can read or write needs a full disk
    with pytest.raises(StoreError, match=r"the plan is unchanged, your text is in (\S+)") as refused:
        plan(planning, "edit", asyncio.run)
    aside = Path(str(refused.value).rpartition(" ")[2])
    assert aside.read_text() == "1. Look."
    aside.unlink()


async def nothing(_: Plan) -> str:
    return ""


def test_a_file_that_is_no_plan_can_be_removed(planning: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    assert planning.path is not None
    planning.path.parent.mkdir()
    planning.path.write_bytes(b"\0")
    for text in ("", "1. Look.", "edit"):
        with pytest.raises(StoreError, match="is no plan"):
            plan(planning, text, asyncio.run)
    plan(planning, "clear", asyncio.run)
    told = capsys.readouterr()
    assert "is no plan" in told.err and told.out == "the plan is removed\n"
    assert not planning.path.exists()


def test_a_plan_of_a_chat_is_there_when_it_goes_on(tmp_path: Path) -> None:
    """Kept beside the log, and sent once."""
    chat(tmp_path, "/plan 1. Look.", "hello", "again")
    (log,) = logs(tmp_path)
    assert (log.with_suffix("") / "plan.md").read_text() == "1. Look.\n"
    assert log.read_text().count("1. Look.") == 1
    done = chat(tmp_path, "/plan", "go on", args=("--continue",))
    assert "1. Look." in done.stdout
    assert log.read_text().count("1. Look.") == 1
