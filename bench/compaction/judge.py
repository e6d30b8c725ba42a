"""What of a person's rules and of the task states is in a request, and what is there that nobody said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.compaction.lossy import INVENTED
from bench.compaction.sessions import MARKS, Known, Rule
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.tokens import estimate_text

PATH = re.compile(r"/[^\s\"'<>`()\[\],;]+")
"""An absolute path in running text."""
HEADING = re.compile(r"### \S+ \S+ \S+$")
"""Above a person's words in a file: when, and the id of the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One request, judged."""

    said: int
    """Rules that count."""
    kept: int
    """Of them, those that are in the request word for word."""
    pointed: int
    """Of the others, those in a file of the person's words that is named in the request, under their id."""
    in_log: int
    """Of the rest, those in the whole log, if that is named in the request."""
    states: int
    states_kept: int
    misled: int
    """Rules that no longer count, in view without what replaced them."""
    invented: int
    """Quotations put into the person's mouth."""
    fits: bool = True
    """A request over the window is refused: nothing in it counts as kept."""
    lost: tuple[str, ...] = ()
    """The words of what is neither there nor pointed to."""


def judge(request: Sequence[JsonObject], known: Known, file_rules: Sequence[Rule], *, window: int) -> Verdict:
    """`request` is everything that is sent: system blocks and messages."""
    strings = [one for piece in request for one in _strings(piece)]
    fits = sum(estimate_text(one) for one in strings) <= window
    text = "\n".join(strings) if fits else ""
    rules = [*known.rules.values(), *file_rules]
    missing = [rule for rule in rules if rule.text not in text]
    files = _files(text) if missing else []
    pointed = [rule for rule in missing if any(_is_under_id(one, rule.text) for one in files)]
    logged = [
        rule for rule in missing if rule not in pointed and any(_is_in_log(one, rule.text) for one in files)
    ]
    new = {rule.id: rule.text for rule in known.rules.values()}
    misled = [old for by, old in known.replaced.items() if old in text and new.get(by, "") not in text]
    lost = [rule.text for rule in missing if rule not in (*pointed, *logged)]
    states = [title for title, state in known.states.items() if _stands(text, title, state)]
    return Verdict(
        said=len(rules),
        kept=len(rules) - len(missing),
        pointed=len(pointed),
        in_log=len(logged),
        states=len(known.states),
        states_kept=len(states),
        misled=len(misled),
        invented=sum(quoted in text for quoted in INVENTED),
        fits=fits,
        lost=(*lost, *(title for title in known.states if title not in states)),
    )


def _stands(text: str, title: str, state: str) -> bool:
    """Whether the last line about a task says how it stands."""
    lines = [line for line in text.splitlines() if title in line]
    return bool(lines) and (MARKS[state] in lines[-1] or _names(lines[-1], state))


def _names(line: str, state: str) -> bool:
    return re.search(rf"\b{state.replace('_', '[_ ]')}\b", line) is not None


def _files(text: str) -> list[str]:
    """What is in the files that are named in a text."""
    files = (Path(path.rstrip(".:")) for path in sorted(set(PATH.findall(text))))
    return [file.read_text("utf-8") for file in files if file.is_file()]


def _is_under_id(content: str, words: str) -> bool:
    """Whether a page of a person's words has these, below the id of the record they come from."""
    before, found, _ = content.partition(words)
    return bool(found) and any(HEADING.match(line) for line in before.splitlines())


def _is_in_log(content: str, words: str) -> bool:
    lines = (line for line in content.splitlines() if line.startswith("{"))
    return any(words in "\n".join(_strings(json.loads(line))) for line in lines)


def _strings(value: Json) -> Iterator[str]:
    """Every string in it; what has a title and a state, as tasks have, on one line."""
    match value:
        case str():
            yield value
        case {"title": str(title), "state": str(state)}:
            yield f"{state} {title}"
        case dict():
            for one in value.values():
                yield from _strings(one)
        case list():
            for one in value:
                yield from _strings(one)
        case _:
            pass
