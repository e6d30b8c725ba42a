"""Questions to the person: what they see, and that only a clear yes is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.cli.chat.answers import ask_outside, ask_trust
from nacre.cli.chat.line_mode import ask_permission
from nacre.tools.guard import PermissionAnswer, PermissionQuestion, Refusal
from nacre.tools.rules import PermissionRule

DIFF = "--- app.py\n+++ app.py\n@@ -1 +1 @@\n-old\n+new"


def question(preview: str = DIFF, reason: str = "it would change app.py") -> PermissionQuestion:
    rule = PermissionRule("allow", "Edit", "/app.py")
    return PermissionQuestion(tool="Edit", arguments={}, reason=reason, preview=preview, rule=rule)


def typing(word: str) -> Callable[[str], str]:
    def read(prompt: str) -> str:
        print(prompt + word)
        return word

    return read


def failing(error: BaseException) -> Callable[[str], str]:
    def read(prompt: str) -> str:
        raise error

    return read


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("no because it is live", Refusal("it is live")),
        ("n because x", Refusal("x")),
        ("no because", "no"),
        ("y", "once"),
        (" YES ", "once"),
        ("a", "always"),
        ("Always", "always"),
        ("", "no"),
        ("n", "no"),
        ("yep", "no"),
        ("y please", "no"),
        ("да", "no"),
    ],
)
def test_only_a_clear_yes_is_one(word: str, answer: PermissionAnswer) -> None:
    assert ask_permission(question(), typing(word)) == answer


@pytest.mark.parametrize("error", [EOFError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd")])
def test_what_nobody_can_read_means_no(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask_permission(question(), failing(error)) == "no"
    assert not ask_trust(Path("/repository"), ("hooks",), failing(error))
    assert capsys.readouterr().out.endswith("\n")


def test_an_interrupt_passes_and_leaves_the_line_finished(capsys: pytest.CaptureFixture[str]) -> None:
    """Q2: it ends the turn, and what is said next begins on a line of its own."""
    with pytest.raises(KeyboardInterrupt):
        ask_permission(question(), failing(KeyboardInterrupt()))
    assert capsys.readouterr().out.endswith("\n\n")


def test_the_person_sees_why_what_and_what_always_would_mean(capsys: pytest.CaptureFixture[str]) -> None:
    ask_permission(question(), typing("y"))
    assert capsys.readouterr().out.splitlines() == [
        "? Edit needs your permission (it would change app.py)",
        "    --- app.py",
        "    +++ app.py",
        "    @@ -1 +1 @@",
        "    -old",
        "    +new",
        "  always would allow Edit(/app.py) in this project from now on",
        "  go ahead? [y]es, [a]lways, [N]o: y",
    ]


def test_a_call_cannot_repaint_the_question(capsys: pytest.CaptureFixture[str]) -> None:
    """A command with escape sequences or a hidden line must look like what it is."""
    hidden = "rm -rf ~\x1b[2K\rls\u202e"
    ask_permission(question(preview=hidden, reason="odd\x1b[1A"), typing("n"))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\r" not in shown and "\u202e" not in shown
    assert "rm -rf ~" in shown


def test_a_file_outside_is_named_before_it_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    """M23: a name cannot repaint the question."""
    assert ask_outside(Path("/repository"), Path("/other/rules.md"), typing("YES"))
    assert not ask_outside(Path("/repository"), Path("/other/\x1b[2Krules.md"), typing("always"))
    shown = capsys.readouterr().out
    assert "The instructions in /repository include /other/rules.md, which is outside of it." in shown
    assert "\x1b" not in shown


def test_trust_names_what_the_directory_brings(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask_trust(Path("/repository"), ("hooks", "mcpServers"), typing("yes"))
    assert not ask_trust(Path("/repository"), ("hooks", "mcpServers"), typing(""))
    assert "The settings in /repository bring: hooks, mcpServers." in capsys.readouterr().out


def test_a_screen_reader_is_told_of_changes_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask_permission(question(f"{DIFF}\n same"), typing("y"), in_words=True) == "once"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Question: ")
    assert [line.strip() for line in lines[4:7]] == ["removed: old", "added: new", "same"]
