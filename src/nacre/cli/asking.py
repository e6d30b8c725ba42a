"""Questions to the person at the terminal: may this call go ahead, is this directory trusted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nacre.cli.output import has_colour, printable
from nacre.cli.render import styled
from nacre.tools.guard import Answer, Question

_ANSWERS: dict[str, Answer] = {"y": "once", "yes": "once", "a": "always", "always": "always"}


def ask_permission(question: Question, read: Callable[[str], str] = input) -> Answer:
    """Show what would happen and read the answer; anything but yes or always is no."""
    colour = has_colour()
    print(styled(f"? {question.tool}: {printable(question.reason)}", "yellow", colour=colour))
    for line in question.preview.splitlines():
        print("    " + styled(printable(line), _style(line), colour=colour))
    always = printable(question.rule.text)
    try:
        word = read(f"  go ahead? [y]es, [a]lways ({always}), [N]o: ")
    except EOFError:
        print()
        return "no"
    return _ANSWERS.get(word.strip().lower(), "no")


def ask_trust(directory: Path, wants: tuple[str, ...], read: Callable[[str], str] = input) -> bool:
    """Whether what a directory's own settings bring may be used."""
    print(f"The settings in {directory} bring: {', '.join(wants)}.")
    print("They can run programs and send your words elsewhere; they are used only if you trust it.")
    try:
        return read("  trust it? [y]es, [N]o: ").strip().lower() in {"y", "yes"}
    except EOFError:
        print()
        return False


def _style(line: str) -> str:
    if line.startswith("+"):
        return "green"
    return "red" if line.startswith("-") else "dim"
