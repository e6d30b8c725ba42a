"""Write the user's words and the actions to a file before Claude Code compacts (C20)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nacre.errors import NacreError, StoreError
from nacre.integrations.claude_code.input import SHORT_FILE, HookInput, kept_path, transcript_of
from nacre.messages.digest import show_actions, show_words
from nacre.messages.facts import Facts
from nacre.messages.records import Record, Said
from nacre.session.read_session import read_log, read_view
from nacre.store import disk

IN_PLACE_BYTES = 4_000_000
"""Size of a log that is read while the client waits: some tenths of a second."""
WORDS_TOKENS = 12_000
"""Budget for the user's words: hours of conversation."""
ACTIONS_TOKENS = 12_000
"""Budget for actions, one line per call."""
SHORT_TOKENS = 1_000
"""Budget for the words that are attached after a summary: rules and corrections are short."""
HEAD = """\
# What was said and done in this session

Written by nacre before a compaction, by rule, from the log: {log}
"""


def keep_words(given: HookInput) -> None:
    """Write the user's words and the actions so far, including those of earlier compactions."""
    log = transcript_of(given)
    facts = Facts.of(one for one in _records(log) if isinstance(one, Said))
    parts = [
        HEAD.format(log=log),
        show_words(facts, WORDS_TOKENS, where=str(log)).text,
        show_actions(facts, ACTIONS_TOKENS, where=str(log)).text,
    ]
    path = kept_path(log)
    whole = "\n\n".join(part.rstrip() for part in parts if part)
    _write(path, whole)
    _write(path.with_name(SHORT_FILE), show_words(facts, SHORT_TOKENS, where=str(path)).text)


def _write(path: Path, text: str) -> None:
    try:
        disk.make_folder(path.parent)
        data = text.encode(errors="replace") + b"\n"
        disk.replace_file(path, data, temp_name=f".{path.name}.tmp", sync=False)
    except OSError as error:
        raise StoreError(disk.explain(error, path)) from error


def _records(log: Path) -> Sequence[Record]:
    try:
        loaded = read_log(log)
        if loaded is None:
            # The log is too large to read whole: what follows the last compaction is what the next one
            # would lose.
            seen = read_view(log)
            loaded = seen.loaded if seen else None
    except OSError as error:
        raise StoreError(disk.explain(error, log)) from error
    if loaded is None:
        raise NacreError(f"{log} is too long to be read; nothing was saved")
    return loaded.records
