"""Writes notes without a model: requests, actions, files and errors from the log (C17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nacre.layers.l3_notes.policy import NACRE, NotesSettings
from nacre.layers.l3_notes.template import TEMPLATE, NotesTemplate, written
from nacre.messages.digest import show_actions, show_words
from nacre.messages.facts import Facts
from nacre.messages.tokens import estimate_text
from nacre.tools.tasks import MARKS, Task

TITLE_WORDS = 10
TITLE_CHARS = 80
"""Words of the title; a script without spaces may have one long word."""
QUOTED_CHARS = 500
"""Characters of the last message."""
OPEN = ("in_progress", "pending")
RULE_SECTIONS = 9
"""Sections that rules fill. Lessons learnt need judgement, so no rule fills them."""


def by_rule(
    facts: Facts,
    tasks: Sequence[Task] = (),
    *,
    template: NotesTemplate = TEMPLATE,
    settings: NotesSettings = NACRE,
) -> str:
    """Return the template filled from facts; empty without facts."""
    if not (facts.words or facts.actions or tasks):
        return ""
    budget = min(settings.section_tokens, settings.total_tokens // RULE_SECTIONS)
    edited = set(facts.files(only_edited=True))
    files = [f"- {name}{' (changed)' * (name in edited)}" for name in facts.files()]
    errors = dict.fromkeys(f"- {one.line} !! {one.outcome}" for one in facts.errors())
    replies = [f"- {one.line}" for one in facts.actions if one.kind == "reply"]
    title = facts.words[0].text.split()[:TITLE_WORDS] if facts.words else []
    bodies = {
        "session title": " ".join(title)[:TITLE_CHARS],
        "current state": _newest(_state(facts, tasks), budget),
        "task specification": show_words(facts, budget).text,
        "files and functions": _newest(files, budget),
        "workflow": _newest(_commands(facts), budget),
        "errors & corrections": _newest([" ".join(line.split()) for line in errors], budget),
        "codebase and system documentation": _newest([f"- {url}" for url in facts.urls()], budget),
        "key results": _newest(replies, budget),
        "worklog": show_actions(facts, budget).text,
    }
    return written([replace(one, body=bodies.get(one.name) or one.body) for one in template.sections])


def _state(facts: Facts, tasks: Sequence[Task]) -> list[str]:
    lines = [f"- {MARKS[task.state]} {task.title}" for task in tasks if task.state in OPEN]
    if facts.words:
        lines.insert(0, f"- Last asked: {_quoted(facts.words[-1].text)}")
    if facts.actions:
        last = facts.actions[-1]
        failed = f" !! {last.outcome}" if last.outcome else ""
        lines.append(f"- Last {'done' if last.tool else 'said'}: {_quoted(last.line)}{failed}")
    return lines


def _commands(facts: Facts) -> list[str]:
    """Return each command once, in order of its last run, with its count and outcome."""
    runs: dict[str, list[str]] = {}
    for action in facts.commands():
        earlier = runs.pop(action.about, [])
        runs[action.about] = [*earlier, action.outcome]
    lines = []
    for command, outcomes in runs.items():
        often = f", {len(outcomes)} times" if len(outcomes) > 1 else ""
        lines.append(f"- `{' '.join(command.split())}` ({outcomes[-1] or 'exit 0'}{often})")
    return lines


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
