"""Context for the start of a Claude Code session that the client does not load itself; often none."""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path

from nacre import prompts
from nacre.app.memory_locations import memory_place, memory_places
from nacre.errors import NacreError
from nacre.integrations.claude_code.input import SHORT_FILE, HookInput, kept_path, transcript_of
from nacre.memory.files.location import Location
from nacre.memory.format.index import INDEX_FILE, load_index
from nacre.messages.untrusted_text import neutralise
from nacre.settings import Settings, load
from nacre.store import disk

MAX_INDEX_BYTES = 2_000
"""Bytes of an index that the client does not load; with the rest it stays below what the client passes on
whole."""
MAX_WORDS_CHARS = 4_000
"""Characters of the user's words after a summary; they were cut to a token budget when saved."""
AUDIT_FILE = "audit_notice"
"""In a memory's cache: problems found at the end of a session, as one line."""
DREAM_FILE = "dream_notice"
"""Next to it: what a dream at the end of a session changed, as one line."""
REVIEW = "review"
"""Next to it: changes that wait for review. Repeated here because importing its module would take too long.
"""

_OTHERS = prompts.load("nacre.agents", "hook_other_memories")
_COMPACTED = prompts.load("nacre.agents", "hook_after_compaction")


def note_for(hook: HookInput, settings: Settings) -> str:
    """Return text for the model: indexes that the client does not load, and where the words are after a
    compaction."""
    if hook.source in {"resume", "fork"}:
        return ""  # the client tells again what it was told before
    places = memory_places(settings)
    others = [(places.user, "every project"), *([(places.team, "the team")] if places.has_team else [])]
    parts = [text for place, whose in others if (text := _index(place, whose))]
    if hook.source == "compact" and (path := _kept(hook)):
        parts.append(prompts.render(_COMPACTED, path=str(path), words=_words(path)))
    return "\n\n".join(parts)


def word_for(hook: HookInput, settings: Settings) -> str:
    """Return text for the user, if there is something only they can do."""
    if hook.source not in {"startup", "resume", ""}:
        return ""
    places = memory_places(settings)
    lines: list[str] = []
    for place in places.in_use:
        if count := sum(1 for _ in (place.cache / REVIEW).glob("*.json")):
            what = "memory waits" if count == 1 else "memories wait"
            lines.append(f"nacre: {count} {what} for your word: {typed('nacre memory review', settings)}")
    for file in (AUDIT_FILE, DREAM_FILE):
        notice = places.project.cache / file
        with suppress(OSError, UnicodeDecodeError):
            # Shown once: reading it deletes the file.
            line = notice.read_text(encoding="utf-8").strip()
            notice.unlink()
            lines += [line] if line else []
    return "\n".join(lines)


def typed(command: str, settings: Settings) -> str:
    """Return a command such as `nacre memory undo` with options that select the memory of these settings."""
    # Imported only when there is something to report: the user waits for most hooks.
    import shutil  # noqa: PLC0415

    beside = Path(sys.executable).with_name("nacre")
    if not shutil.which("nacre") and beside.exists():
        command = command.replace("nacre", shlex.quote(str(beside)), 1)
    # Set for the client, it need not be set where the user types.
    environ = {name: value for name, value in settings.environ.items() if name != "CLAUDE_CONFIG_DIR"}
    usual = load(settings.cwd, environ)
    if memory_place(usual, "project").directory == memory_place(settings, "project").directory:
        return command
    return f"NACRE_HOME={shlex.quote(str(settings.home))} {command}"


def _index(place: Location, whose: str) -> str:
    try:
        descriptor = disk.open_regular(place.directory / INDEX_FILE, os.O_RDONLY)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as source:
        index = load_index(source.read(10 * MAX_INDEX_BYTES), max_bytes=MAX_INDEX_BYTES)
    if not index.text.strip():
        return ""
    text = neutralise(index.text.strip())
    return prompts.render(_OTHERS, whose=whose, directory=str(place.directory), index=text)


def _kept(hook: HookInput) -> Path | None:
    try:
        path = kept_path(transcript_of(hook))
    except NacreError:
        return None
    return path if path.is_file() else None


def _words(kept: Path) -> str:
    try:
        text = kept.with_name(SHORT_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return neutralise(text[:MAX_WORDS_CHARS]).strip()
