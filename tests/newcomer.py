"""A newcomer's first minutes, played: a clean clone, a fresh home, and nothing but python3, pip and make.

`.ci/run` runs it beside the linters. It counts commands as the README gives them, and tells the time taken.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TO_A_REMEMBERING_AGENT = 3
"""Commands, at most, until an agent knows in a second chat what it was told in a first one."""
TO_CLAUDE_CODE = 4
"""Commands, at most, until Claude Code is told what was said in a chat of nacre's."""
MOST_SECONDS = 600
"""Of one command: only what hangs is ended, for a slow machine is no mistake of ours."""
OTHERS = ("NACRE_", "ANTHROPIC_", "OPENAI_", "CLAUDE", "PYTHON", "MAKE", "ARGS", "VIRTUAL_ENV", "XDG_")
"""What somebody who has just come has not set."""


class StuckError(Exception):
    """A step that did not lead where it should."""


@dataclass(frozen=True)
class Step:
    """A command as the README says it, what is typed into it, and what it must answer."""

    command: str
    typed: str = ""
    answers: str = ""


REMEMBERING = (
    Step("make chat", "remember that I prefer tabs", "Saved to user_prefer_tabs.md"),
    Step("make chat", "what do you know about tabs?", "I prefer tabs"),
)
IN_CLAUDE_CODE = (
    Step("make chat", "remember that I prefer tabs", "Saved to user_prefer_tabs.md"),
    Step(".venv/bin/nacre install claude-code --yes", "", "UserPromptSubmit"),
    Step("claude", "what do you know about tabs?", "I prefer tabs"),
)


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        clone = Path(folder) / "nacre"
        _cloned(clone)
        try:
            _told_in_the_readme(clone)
            _way("a remembering agent", REMEMBERING, TO_A_REMEMBERING_AGENT, clone)
            _way("the same memory in Claude Code", IN_CLAUDE_CODE, TO_CLAUDE_CODE, clone)
        except StuckError as stuck:
            print(f"newcomer: {stuck}", file=sys.stderr)
            return 1
    print(f"newcomer: all of it {time.monotonic() - started:.0f} s")
    return 0


def _cloned(clone: Path) -> None:
    """As it was committed; where that cannot be had, as it lies here."""
    if subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=False).returncode:
        shutil.copytree(
            ROOT, clone, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache")
        )


def _told_in_the_readme(clone: Path) -> None:
    readme = (clone / "README.md").read_text(encoding="utf-8")
    for step in (*REMEMBERING, *IN_CLAUDE_CODE):
        if f"$ {step.command}" not in readme:
            raise StuckError(f"the README does not say `{step.command}`")


def _way(to: str, steps: tuple[Step, ...], most: int, clone: Path) -> None:
    home = clone.parent / f"home of {len(steps)}"
    home.mkdir()
    if len(steps) > most:
        raise StuckError(f"{len(steps)} commands to {to}, at most {most}")
    before, began = _cpu_seconds(), time.monotonic()
    for step in steps:
        print(f"$ {step.command}" + (f"    < {step.typed}" if step.typed else ""), flush=True)
        is_client = step.command == "claude"
        said = _by_the_hook(step, clone, home) if is_client else _run(step.command, step.typed, clone, home)
        shown = said.strip().splitlines()
        print("".join(f"  {line}\n" for line in shown[-4:]), flush=True)
        if step.answers not in said:
            raise StuckError(f"`{step.command}` did not say {step.answers!r}, but:\n{said}")
    spent, wall = _cpu_seconds() - before, time.monotonic() - began
    print(f"newcomer: {len(steps)} commands to {to}, {wall:.1f} s, {spent:.1f} s of a processor", flush=True)


def _by_the_hook(step: Step, clone: Path, home: Path) -> str:
    """What the client would be told with this prompt: by the command in its settings, run as it does."""
    settings = json.loads((home / ".claude" / "settings.json").read_text(encoding="utf-8"))
    hook = settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]
    told = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "11111111-2222-4333-8444-555555555555",
        "transcript_path": str(home / "no-log-yet.jsonl"),
        "cwd": str(clone),
        "prompt": step.typed,
    }
    answer = _run(hook["command"], json.dumps(told), clone, home)
    if not answer.strip():
        raise StuckError("the hook had nothing to say")
    return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"])


def _run(command: str, typed: str, clone: Path, home: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=clone,
        env=_environ(home),
        input=f"{typed}\n",
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    if done.returncode:
        raise StuckError(f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _environ(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    # Where packages come from belongs to the machine, not to the newcomer's empty home.
    usual = (Path.home() / ".config/pip/pip.conf", Path.home() / ".pip/pip.conf")
    config = next((str(path) for path in usual if path.exists()), None)
    return {**({"PIP_CONFIG_FILE": config} if config else {}), **kept, "HOME": str(home)}


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
