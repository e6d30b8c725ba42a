"""Every example runs as a person would run it, with no network but loopback, and says what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.processes import run_python

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SAYS = {
    "custom_tool.py": "error  convert: amount: expected a number, got 'ten'",
    "fan_out.py": "times the price",
    "guarded_agent.py": "2 calls were refused",
    "library_hello.py": "Your note says: buy milk.",
    "never_too_long.py": "the rule of the first message is still there, word for word: True",
    "own_loop.py": "Rain in Bergen: take the indoor table.",
    "read_sessions.py": "odd       torn_line at line 3: the last line was cut off and is left out",
    "remembering.py": "The build server is heron, in the basement.",
    "reviewer_and_fixer.py": "adding.py: return a + b",
    "sim_cache.py": "times the price",
    "with_anthropic_memory.py": "- [tea](tea.md) — The person drinks black tea, without sugar.",
    "with_langchain.py": "it stayed inside its window: True",
    "with_openai_agents.py": "every request began with the one before: True",
    "with_pydantic_ai.py": "the rule of the first message is still there, word for word: True",
}
"""A line, or the end of one, that shows the example did its work."""


def test_every_example_is_expected_to_say_something() -> None:
    assert sorted(SAYS) == [path.name for path in EXAMPLES]


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_and_leaves_nothing_behind(path: Path, tmp_path: Path) -> None:
    done = run_python([str(path)], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert any(line.endswith(SAYS[path.name]) for line in done.stdout.splitlines()), done.stdout
    assert not list((tmp_path / "work").iterdir())


def test_an_example_reads_the_log_it_is_given(tmp_path: Path) -> None:
    log = tmp_path / "given.jsonl"
    log.write_text('[{"role": "user", "content": "hello"}]', encoding="utf-8")
    done = run_python([str(ROOT / "examples" / "read_sessions.py"), str(log)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "records   1 Said" in done.stdout


def test_the_guard_stops_a_connection_that_would_leave_the_machine(tmp_path: Path) -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    done = run_python(["-c", code], tmp_path)
    assert "an example tried to connect" in done.stderr
