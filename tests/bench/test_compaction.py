"""The judges of the compaction benchmarks: what counts as kept, pointed to, misled, invented, waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bench.compaction.blocking import BOUND, SUMMARY_SECONDS, _run
from bench.compaction.judge import judge
from bench.compaction.lossy import INVENTED, lossy
from bench.compaction.sessions import Known, Rule, Turn, session
from bench.compaction.steps import Moment, Watch
from nacre.messages.blocks import JsonObject

RULE = Rule("r1", "rule", "Never touch generated/a.py.")
NEWER = Rule("r2", "correction", "I was wrong: generated/a.py is fine.", replaces="r1")


def sent(*texts: str) -> list[JsonObject]:
    return [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]


def known(*rules: Rule, states: tuple[tuple[str, str], ...] = ()) -> Known:
    found = Known()
    turn = Turn("words", (), "", rules, states)
    found.hear(turn)
    found.see(turn)
    return found


def test_a_rule_is_kept_word_for_word_or_not_at_all() -> None:
    """C20."""
    assert judge(sent(f"They said: {RULE.text}"), known(RULE), (), window=100).kept == 1
    about = judge(sent("Never touch the generated files."), known(RULE), (), window=100)
    assert (about.kept, about.pointed, about.lost) == (0, 0, (RULE.text,))


def test_a_pointer_counts_only_if_the_file_is_there_and_has_the_words_under_an_id(tmp_path: Path) -> None:
    """C20: path and id must lead to what had no room."""
    page = tmp_path / "user-messages.md"
    request = sent(f"1 more message is not shown here, in {page} (id u-7).")
    assert judge(request, known(RULE), (), window=200).pointed == 0
    page.write_text(f"Loose words: {RULE.text}")
    assert judge(request, known(RULE), (), window=200).pointed == 0
    page.write_text(f"### 2026-01-01 09:00 u-7\n\n{RULE.text}\n")
    found = judge(request, known(RULE), (), window=200)
    assert (found.pointed, found.in_log, found.lost) == (1, 0, ())


def test_the_whole_log_is_told_apart_from_a_pointer(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"uuid": "u-7", "message": {"content": "' + RULE.text + '"}}\n')
    found = judge(sent(f"The log: {log}"), known(RULE), (), window=200)
    assert (found.pointed, found.in_log, found.lost) == (0, 1, ())


def test_a_rule_that_was_taken_back_misleads_without_its_correction() -> None:
    talk = known(RULE)
    talk.hear(Turn("more", (), "", (NEWER,)))
    assert judge(sent(RULE.text), talk, (), window=100).misled == 1
    assert judge(sent(RULE.text, NEWER.text), talk, (), window=100).misled == 0


def test_a_task_counts_as_its_last_line_says() -> None:
    """C20: done, cancelled and waiting are carried explicitly."""
    tasks = known(states=(("Move it", "cancelled"),))
    assert judge(sent("1. [-] Move it"), tasks, (), window=100).states_kept == 1
    assert judge(sent("1. [-] Move it", "1. [>] Move it"), tasks, (), window=100).states_kept == 0
    assert judge(sent("something else"), tasks, (), window=100).states_kept == 0


def test_a_request_over_the_window_keeps_nothing_and_inventions_are_counted() -> None:
    assert judge(sent(RULE.text + "x" * 4_000), known(RULE), (), window=100).kept == 0
    assert judge(sent(lossy().text), known(RULE), (), window=10_000).invented == len(INVENTED)


def test_sessions_are_the_same_every_time_and_replace_rules_they_stated() -> None:
    once, again = session(1, 40), session(1, 40)
    assert once == again
    assert session(2, 40) != once
    stated = {rule.id for turn in once.turns for rule in turn.rules}
    corrections = [rule for turn in once.turns for rule in turn.rules if rule.kind == "correction"]
    assert corrections
    assert all(rule.replaces in stated for rule in corrections)


def test_a_session_is_looked_at_once_for_every_moment() -> None:
    watch = Watch(60_000)
    assert watch.due(compactions=1, said=10) == [Moment("compactions", 1)]
    assert watch.due(compactions=1, said=10) == []
    assert not watch.is_over
    assert Moment("windows said", 8) in watch.due(compactions=3, said=1_000_000)
    assert watch.is_over


@pytest.mark.slow
def test_a_request_that_waits_for_a_summary_is_noticed() -> None:
    """C28: without this, none would wait in any benchmark."""
    found = asyncio.run(_run(BOUND, 24_000, 1_500, 1, ahead=False))
    assert found["waited"] == 1
    assert found["waited_seconds"] == SUMMARY_SECONDS
