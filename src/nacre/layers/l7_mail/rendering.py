"""Letters as the receiving model reads them: bounded, each sender named, none of it the program's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from nacre import prompts
from nacre.layers.l7_mail.letter import Letter
from nacre.memory.neutral import neutralise, one_line

TAG = "teammate-message"
LETTERS = prompts.load(__package__, "letters")
SHUTDOWN = prompts.load(__package__, "shutdown_request")


def told(letters: Sequence[Letter]) -> str:
    """What is said about letters at the tail of a message; nothing when there are none."""
    if not letters:
        return ""
    return prompts.render(LETTERS, letters="\n\n".join(_one(letter) for letter in letters))


def _one(letter: Letter) -> str:
    about = f' summary="{one_line(letter.summary)}"' if letter.summary else ""
    answers = f' answers="{letter.answers}"' if letter.answers else ""
    head = f'<{TAG} from="{one_line(letter.sender)}" id="{letter.id}" kind="{letter.kind}"{answers}{about}>'
    return f"{head}\n{_body(letter)}\n</{TAG}>"


def _body(letter: Letter) -> str:
    words = neutralise(letter.text).strip()
    match letter.kind:
        case "text":
            return words
        case "shutdown_request":
            asked = prompts.render(SHUTDOWN, id=letter.id)
            return f"{asked}\nReason: {words}" if words else asked
        case "shutdown_response":
            return _verdict("will shut down", "will not shut down", letter, words)
        case "plan_approval_response":
            return _verdict("The plan is approved.", "The plan is not approved.", letter, words)
        case other:
            assert_never(other)


def _verdict(yes: str, no: str, letter: Letter, words: str) -> str:
    said = yes if letter.approves else no
    if said[0].islower():
        said = f"{one_line(letter.sender)} {said}."
    return f"{said}\n{words}" if words else said
