"""A new day is told at the tail, and once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from nacre.app.open_agent import open_agent
from nacre.settings import load
from nacre.testing import FrozenClock, ScriptedProvider, say

DAY = 86_400


async def test_midnight_is_told_with_the_next_words_and_a_resume_knows_it(tmp_path: Path) -> None:
    """M17: what was sent stays as it is (the prefix net sees to that); nothing is said twice."""
    settings = load(tmp_path, {"HOME": str(tmp_path), "NACRE_HOME": str(tmp_path / "home")})
    clock = FrozenClock(datetime(2026, 3, 9, 12, tzinfo=UTC))
    provider = ScriptedProvider([say("one"), say("two"), say("three"), say("four")])

    async def talk(*texts: str, session: str = "new") -> None:
        async with open_agent(settings, provider=provider, session=session, clock=clock) as ready:
            for text in texts:
                async for _ in ready.agent.stream(text):
                    pass

    await talk("hello", "still today")
    assert "The date has changed" not in str(provider.requests[-1].messages)
    clock.advance(DAY)
    await talk("good morning", "and so on", session="latest")
    told = str(provider.requests[-2].messages[-1]["content"])
    assert "it was Monday, 2026-03-09, and it is now Tuesday, 2026-03-10" in told
    assert str(provider.requests[-1].messages).count("The date has changed") == 1
