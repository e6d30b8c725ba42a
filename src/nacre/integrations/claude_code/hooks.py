"""Answer hook events of Claude Code with recall, notes and extraction; never block the client.

The client waits for milliseconds only; longer work is `later`, for a process that outlives the hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nacre.errors import NacreError
from nacre.integrations.claude_code.input import (
    OURS,
    HookInput,
    is_attended,
    is_switched_off,
    parse_input,
    settings_for,
)
from nacre.integrations.claude_code.state import change_state
from nacre.messages.blocks import JsonObject
from nacre.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAnswer:
    """The answer to the client, and whether work remains."""

    context: str = ""
    """Text for the model."""
    message: str = ""
    """Text for the user."""
    later: bool = False
    """Whether work remains that the client must not wait for."""

    def as_json(self, event: str) -> JsonObject:
        """Return the answer as the client reads it; empty if there is none."""
        given: JsonObject = {}
        if self.context:
            given["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": self.context}
        if self.message:
            given["systemMessage"] = self.message
        return given


NOTHING = HookAnswer()


def answer(event: str, raw: bytes, environ: Mapping[str, str]) -> HookAnswer:
    """Answer one event; `NacreError` describes a bad one in one line."""
    if OURS in environ:
        return NOTHING
    heard = parse_input(event, raw, environ)
    settings = settings_for(heard.cwd, environ)
    if heard.is_agents or not settings.memory.is_on or is_switched_off(heard):
        return NOTHING
    match event:
        case "UserPromptSubmit":
            from nacre.integrations.claude_code.recall import MAX_COLD, is_cold, recalled_for  # noqa: PLC0415

            message = _due_notices(heard)
            if is_cold(settings, more_than=MAX_COLD):
                return HookAnswer(message=message, later=True)
            return HookAnswer(context=recalled_for(heard, settings), message=message)
        case "SessionStart":
            return _started(heard, settings)
        case "PreCompact":
            return _compacting(heard)
        case _:
            # A script that runs the client a thousand times must not start a thousand idle processes.
            is_wanted = is_attended(environ) or settings.extract.non_interactive
            return HookAnswer(later=is_wanted and not heard.is_again)


def work(event: str, raw: bytes, environ: Mapping[str, str]) -> None:
    """Do the work that an event left, after the client has its answer."""
    heard = parse_input(event, raw, environ)
    settings = settings_for(heard.cwd, environ)
    match event:
        case "UserPromptSubmit" | "SessionStart":
            # Imported per event: each needs other modules, and a person waits for most of them.
            from nacre.integrations.claude_code.recall import warm  # noqa: PLC0415

            warm(settings)
        case "PreCompact":
            from nacre.integrations.claude_code.compact import keep_words  # noqa: PLC0415

            keep_words(heard)
        case _:
            from nacre.integrations.claude_code.extract import draw  # noqa: PLC0415

            try:
                draw(heard, settings, is_attended=is_attended(environ))
            finally:
                if event == "SessionEnd":
                    from nacre.integrations.claude_code.dream import dream_if_due  # noqa: PLC0415

                    dream_if_due(heard, settings)


def _started(heard: HookInput, settings: Settings) -> HookAnswer:
    from nacre.integrations.claude_code.recall import is_cold  # noqa: PLC0415
    from nacre.integrations.claude_code.session_start import note_for, word_for  # noqa: PLC0415

    if heard.source == "compact":
        # A compaction summarises attached memories with the rest, so that they may be needed again (R7).
        change_state(heard.home, heard.session, lambda state: replace(state, attached={}))
    return HookAnswer(
        context=note_for(heard, settings), message=word_for(heard, settings), later=is_cold(settings)
    )


def _compacting(heard: HookInput) -> HookAnswer:
    from nacre.integrations.claude_code.compact import IN_PLACE_BYTES, keep_words  # noqa: PLC0415
    from nacre.integrations.claude_code.input import transcript_of  # noqa: PLC0415

    log = transcript_of(heard)
    try:
        size = log.stat().st_size
    except OSError as error:
        raise NacreError(f"{log} cannot be read ({error.strerror}); no words were kept") from error
    if size > IN_PLACE_BYTES:
        return HookAnswer(later=True)
    keep_words(heard)
    return NOTHING


def _due_notices(heard: HookInput) -> str:
    """Return notices that the user has not seen, once."""
    from nacre.integrations.claude_code.state import state_of  # noqa: PLC0415

    if not state_of(heard.home, heard.session).notices:
        return ""
    before = change_state(heard.home, heard.session, lambda state: replace(state, notices=()))
    return "\n".join(before.notices)
