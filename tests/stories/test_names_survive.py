"""A name that was read before a compaction is in the next request, although its text is gone (C20b)."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.app.open_agent import open_agent
from nacre.session.compaction import CompactionRequest
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, call
from tests.stories.scenes import environment
from tests.stories.scenes import say as tell

ROUNDS = 12


@pytest.mark.moves_prefix(reason="the conversation is compacted")
async def test_a_name_from_before_a_compaction_is_in_the_next_request(
    tmp_path: Path, clock: FrozenClock
) -> None:
    body = "    value = value + 1  # one more line of the function\n" * 120
    text = f"def settle(value):\n    close_open_invoices()\n{body}"
    (tmp_path / "ledger.py").write_text(text, encoding="utf-8")
    rounds = [call("Bash", command=f"seq {n} {n + 1500}") for n in range(ROUNDS)]
    provider = ScriptedProvider().script(call("Read", file_path="ledger.py"), *rounds, "Done.", "Yes.")
    environ = {**environment(tmp_path), "NACRE_MODEL": "claude-sonnet-4-6", "ANTHROPIC_API_KEY": "k"}
    environ |= {"NACRE_COMPACTION_MAX_FILES": "1", "NACRE_COMPACTION_TAIL_TOKENS": "2000"}
    async with open_agent(load(tmp_path, environ), provider=provider, clock=clock) as ready:
        assert ready.compact is not None
        await tell(ready.agent, "Look at it.")
        # The file is gone: it cannot be restored from disk.
        (tmp_path / "ledger.py").unlink()
        await ready.compact.compact(CompactionRequest(by_rule=True))
        await tell(ready.agent, "Which function was it?")
    sent = str(provider.requests[-1].messages)
    assert "one more line of the function" not in sent
    assert "close_open_invoices" in sent
