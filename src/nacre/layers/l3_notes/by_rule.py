"""Writes notes without a model: requests, actions, files and errors from the log (C17)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nacre.layers.l3_notes.policy import NACRE, NotesSettings
from nacre.layers.l3_notes.template import TEMPLATE, NotesTemplate, written
from nacre.messages.digest import show_deeds, show_words
from nacre.messages.facts import Facts
from nacre.messages.tokens import estimate_text
from nacre.tools.tasks import MARKS, Task

TITLE_WORDS = 10
TITLE_CHARS = 80
"""Words of the title; a script without spaces may have one long word."""
QUOTED_CHARS = 500
"""Characters of the last message."""
OPEN = ("in_progress", "pending")


def by_rule(
    facts: Facts,
    tasks: Sequence[Task] = (),
    *,
    template: NotesTemplate = TEMPLATE,
    settings: NotesSettings = NACRE,
) -> str:
    """Return the template filled from facts; empty without facts."""
    if not (facts.words or facts.deeds or tasks):
        return ""
    budget = min(settings.section_tokens, settings.total_tokens // len(_SOURCES))
    bodies = {name: source(facts, tasks, budget) for name, source in _SOURCES.items()}
    return written([replace(one, body=bodies.get(one.name) or one.body) for one in template.sections])


def _title(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    words = facts.words[0].text.split()[:TITLE_WORDS] if facts.words else []
    return " ".join(words)[:TITLE_CHARS]


def _state(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    lines = [f"- {MARKS[task.state]} {task.title}" for task in tasks if task.state in OPEN]
    if facts.words:
        lines.insert(0, f"- Last asked: {_quoted(facts.words[-1].text)}")
    if facts.deeds:
        last = facts.deeds[-1]
        failed = f" !! {last.outcome}" if last.outcome else ""
        lines.append(f"- Last {'done' if last.tool else 'said'}: {_quoted(last.line)}{failed}")
    return _newest(lines, budget)


def _asked(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    return show_words(facts, budget).text


def _files(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    edited = set(facts.files(only_edited=True))
    return _newest([f"- {name}{' (changed)' * (name in edited)}" for name in facts.files()], budget)


def _commands(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    """Return each command once, in order of its last run, with its count and outcome."""
    runs: dict[str, list[str]] = {}
    for deed in facts.commands():
        earlier = runs.pop(deed.about, [])
        runs[deed.about] = [*earlier, deed.outcome]
    lines = []
    for command, outcomes in runs.items():
        often = f", {len(outcomes)} times" if len(outcomes) > 1 else ""
        lines.append(f"- `{' '.join(command.split())}` ({outcomes[-1] or 'exit 0'}{often})")
    return _newest(lines, budget)


def _errors(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    lines = dict.fromkeys(f"- {one.line} !! {one.outcome}" for one in facts.errors())
    return _newest([" ".join(line.split()) for line in lines], budget)


def _pages(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    return _newest([f"- {address}" for address in facts.urls()], budget)


def _results(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    """Return the final replies of the turns."""
    return _newest([f"- {one.line}" for one in facts.deeds if one.kind == "reply"], budget)


def _worklog(facts: Facts, tasks: Sequence[Task], budget: int) -> str:
    return show_deeds(facts, budget).text


_SOURCES: Mapping[str, Callable[[Facts, Sequence[Task], int], str]] = {
    "session title": _title,
    "current state": _state,
    "task specification": _asked,
    "files and functions": _files,
    "workflow": _commands,
    "errors & corrections": _errors,
    "codebase and system documentation": _pages,
    "key results": _results,
    "worklog": _worklog,
}
"""By plain section name. Lessons learnt need judgement, so no rule fills them."""


def _newest(lines: Sequence[str], budget: int) -> str:
    """Return the newest lines that fit, in order."""
    kept: list[str] = []
    for line in reversed(lines):
        budget -= estimate_text(line) + 1
        if budget < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= QUOTED_CHARS else flat[: QUOTED_CHARS - 1] + "…"
