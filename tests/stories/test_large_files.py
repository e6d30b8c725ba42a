"""A large file over the wire: a page first, then the lines that are needed, and no edit from memory."""

from __future__ import annotations

from pathlib import Path

from nacre.devtools.sim import Simulator
from nacre.messages.blocks import Json
from nacre.messages.wire import canonical
from tests.stories.scenes import BAR, CLAUDE, bare, call, calls, quiet, results, say, shares_read, talking_to

LARGE = "".join(f"def step_{n}(x):\n    # {'why ' * 8}\n    return x + {n}\n\n\n" for n in range(300))
SCRIPT: list[Json] = [
    calls(call("Read", file_path="large.py")),
    calls(call("Edit", file_path="large.py", old_string="return x + 250", new_string="return x - 250")),
    calls(call("Read", file_path="large.py", offset=1243, limit=21)),
    calls(call("Edit", file_path="large.py", old_string="return x + 250", new_string="return x - 250")),
    calls(call("Write", file_path="large.py", content="x = 1\n")),
    calls(call("Read", file_path="large.py")),
    "done",
]


async def test_an_edit_after_a_page_waits_until_its_lines_were_read(tmp_path: Path) -> None:
    cwd = quiet(tmp_path / "work")
    (cwd / "large.py").write_text(LARGE)
    async with Simulator(SCRIPT) as sim, talking_to(sim, CLAUDE, cwd) as ready:
        page, refused, lines, edited, kept, again = results(await say(ready.agent, "turn step 250 around"))
    assert page.text.startswith("1\tdef step_0(x):\n2\t") and "[Lines 1-" in page.text
    assert "\n1251\tdef step_250(x):" in page.text or "\n1246\tdef step_249(x):" in page.text
    assert "x + 250" not in page.text
    assert len(page.text) < len(LARGE) / 2
    assert refused.is_error and "Line 1253 of large.py was not shown yet" in refused.text
    assert "offset=1243 limit=21" in refused.text
    assert lines.text.startswith("1243\t") and "1253\t    return x + 250" in lines.text
    assert edited.text == "Edited large.py: 1 place, line 1253."
    assert kept.is_error and "of the 1,500 lines of large.py were shown" in kept.text
    assert (cwd / "large.py").read_text() == LARGE.replace("x + 250", "x - 250")
    assert "[The same " in again.text or "[Lines 1-" in again.text
    shares = shares_read(sim.log)
    assert all(share >= BAR for share in shares), shares
    assert "x + 251" in canonical(bare(sim.log[-1].body["messages"])).decode()
