"""What fills the window, said without opening anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.agents.contents import contents
from nacre.agents.opening import UNKEPT, open_agent
from nacre.messages.tokens import estimate_json
from nacre.settings import load


@pytest.mark.parametrize("fetches", ["0", "1"])
async def test_the_tools_that_are_counted_are_those_a_session_sends(tmp_path: Path, fetches: str) -> None:
    """C34."""
    environ = {"HOME": str(tmp_path), "NACRE_MODEL": "embedded", "NACRE_WEB_FETCH": fetches}
    settings = load(tmp_path, environ)
    async with open_agent(settings, session=UNKEPT) as ready:
        sent = sum(estimate_json(definition) for definition in ready.agent.session.base.tools)
    assert contents(settings, None).parts["tools"] == sent
