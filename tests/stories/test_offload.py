"""Layer 1 over the wire: results shrink before they are sent, and no byte of the prefix moves (C4 to C7)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from nacre.devtools.sim import Simulator
from nacre.messages.blocks import Json
from nacre.messages.events import Notice
from nacre.messages.wire import canonical
from tests.stories.scenes import (
    BAR,
    CLAUDE,
    OLDER_CLAUDE,
    bare,
    call,
    calls,
    chain_of,
    quiet,
    say,
    shares_read,
    talking_to,
)

FIRST: list[Json] = [
    calls(call("Bash", command="seq 1 9000"), call("Read", file_path="module_0.py")),
    calls(call("Bash", command="sed -i '7s/.*/changed = True/' module_0.py")),
    calls(call("Read", file_path="module_0.py"), call("Bash", command="cat module_*.py")),
    calls(call("Bash", command="head -n 40 module_1.py"), call("Bash", command="head -n 40 < module_1.py")),
    "done",
]
SECOND: list[Json] = [calls(call("Read", file_path="module_0.py")), "still the same", "bye"]


@pytest.mark.parametrize("model", [CLAUDE, OLDER_CLAUDE])
async def test_what_shrinks_does_so_before_it_is_sent_and_stays_so_after_a_resume(
    model: str, tmp_path: Path
) -> None:
    """C6, C32: through the SDK, in a session that is resumed; each request reads the one before it whole."""
    cwd = quiet(tmp_path / "work")
    async with Simulator([*FIRST, *SECOND]) as sim:
        async with talking_to(sim, model, cwd) as ready:
            told = [event.text for event in await say(ready.agent, "work") if isinstance(event, Notice)]
        async with talking_to(sim, model, cwd, session="latest") as ready:
            await say(ready.agent, "once more", "thanks")
    assert [one.status for one in sim.log] == [200] * 8
    assert not [one.refusal for one in sim.log if one.refusal]
    shares = shares_read(sim.log)
    assert all(share >= BAR for share in shares), shares
    received = [chain_of(one.body["messages"]) for one in sim.log]
    assert all(after[: len(before)] == before for before, after in pairwise(received))
    assert received[-1] == ready.agent.session.view.chain[: len(received[-1])]
    assert_shrunk(told, canonical(bare(sim.log[-1].body["messages"])).decode())


def assert_shrunk(told: list[str], sent: str) -> None:
    """Two results on disk, one file read again twice, one result that came twice."""
    assert sum("kept in" in line for line in told) == 2
    assert sum("Read of module_0.py" in line for line in told) == 1
    assert sum("the same as an earlier one" in line for line in told) == 1
    assert sent.count("<persisted-output>") == 2 and "8999" not in sent
    assert sent.count("[in place of the earlier line 7:]") == 2
    assert sent.count("[The same ") == 1
