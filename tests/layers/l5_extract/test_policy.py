"""When memories are drawn from a session: gates that cost nothing (E1, E4, E7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nacre.layers.l5_extract.policy import (
    EXTRACT,
    ExtractConditions,
    ExtractEnvironment,
    ExtractSettings,
    due,
    is_enabled,
)

CHAT = ExtractEnvironment(switch=True, is_kept=True, is_interactive=True)
ENDED = ExtractConditions(is_answered=True, has_news=True)


def test_a_kept_conversation_with_a_person_is_drawn_from() -> None:
    """E1, E7: by itself, unless somebody says otherwise."""
    assert is_enabled(CHAT)
    assert is_enabled(CHAT, ExtractSettings(mode="suggest"))


@pytest.mark.parametrize(
    "here",
    [
        replace(CHAT, switch=False),
        replace(CHAT, is_kept=False),
        replace(CHAT, is_bare=True),
        replace(CHAT, is_remote=True),
        replace(CHAT, is_interactive=False),
        replace(CHAT, is_daily=True),
    ],
)
def test_one_reason_is_enough_to_leave_it(here: ExtractEnvironment) -> None:
    """E1: off, incognito, bare, remote, nobody there, a log of the day."""
    assert not is_enabled(here)


def test_settings_open_what_is_closed_by_itself_and_consent_closes_all() -> None:
    """E1, E7: remote and `-p` each need their own word."""
    assert is_enabled(replace(CHAT, is_remote=True), ExtractSettings(remote=True))
    assert is_enabled(replace(CHAT, is_interactive=False), ExtractSettings(non_interactive=True))
    far = replace(CHAT, is_remote=True, is_interactive=False)
    assert not is_enabled(far, ExtractSettings(remote=True))
    assert not is_enabled(CHAT, ExtractSettings(mode="off"))


def test_a_run_is_due_once_a_turn_with_news_was_answered() -> None:
    """E1, E4: not in mid-turn, not for nothing, not more often than every N turns, not after failures."""
    assert not due(ENDED)
    ended = replace(ENDED, turns=EXTRACT.every_turns)
    assert due(ended)
    assert not due(replace(ended, is_answered=False))
    assert not due(replace(ended, has_news=False))
    assert not due(replace(ENDED, turns=2), ExtractSettings(every_turns=3))
    assert due(replace(ENDED, turns=3), ExtractSettings(every_turns=3))
    assert due(replace(ended, failures=2))
    assert not due(replace(ended, failures=3))
