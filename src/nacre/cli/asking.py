"""Questions to the person at the terminal: may this call go ahead, is this directory trusted.

Only a clear yes is one: an empty line, the end of input and what nobody can read mean no.
"""

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
    heading = f"? {question.tool} needs your word ({printable(question.reason)})"
    print(styled(heading, "yellow", colour=colour))
    for line in question.preview.splitlines():
        print("    " + styled(printable(line), _style(line), colour=colour))
    always = f"  always would allow {printable(question.rule.text)} in this project from now on"
    print(styled(always, "dim", colour=colour))
    return _ANSWERS.get(_word(read, "  go ahead? [y]es, [a]lways, [N]o: "), "no")


def ask_trust(directory: Path, wants: tuple[str, ...], read: Callable[[str], str] = input) -> bool:
    """Whether what a directory's own settings bring may be used."""
    print(f"The settings in {directory} bring: {', '.join(wants)}.")
    print("They can run programs and send your words elsewhere. Unless you trust the")
    print("directory, they are ignored.")
    return _word(read, "  trust it? [y]es, [N]o: ") in {"y", "yes"}


def ask_outside(root: Path, path: Path, read: Callable[[str], str] = input) -> bool:
    """Whether a project's instructions may pull in a file that lies outside of it (M23)."""
    print(printable(f"The instructions in {root} include {path}, which is outside of it."))
    return _word(read, "  load it, now and from now on? [y]es, [N]o: ") in {"y", "yes"}


def _word(read: Callable[[str], str], prompt: str) -> str:
    try:
        return read(prompt).strip().lower()
    except (EOFError, UnicodeDecodeError):
        print()
        return ""
    except KeyboardInterrupt:
        print()  # what is said next begins on a line of its own
        raise


def _style(line: str) -> str:
    if line.startswith("+"):
        return "green"
    return "red" if line.startswith("-") else "dim"
