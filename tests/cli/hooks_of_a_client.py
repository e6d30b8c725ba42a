"""A client's side of the hooks: a home, a project, a log, and hooks run as processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli import warm
from tests.cli.program import begin

SESSION = "1f529758-d042-4f54-ace6-be2b0df528be"


class ClientWorld:
    """What a client has on disk, and how it calls its hooks."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "my claude"  # a space: what is printed must be fit to be typed
        self.project = base / "my_Project.x"
        self.project.mkdir()
        subprocess.run(["git", "init", "-q", self.project], check=True)
        self.folder = self.home / "projects" / re.sub("[^A-Za-z0-9]", "-", str(self.project))
        self.memory = self.folder / "memory"
        self.memory.mkdir(parents=True)
        self.log = self.folder / f"{SESSION}.jsonl"

    def remember(self, file: str, text: str, *, head: str = "") -> None:
        """A memory as the client writes one."""
        (self.memory / file).write_text(f"---\nname: {file}\ndescription: {text}\n{head}---\n\n{text}\n")

    def say(self, *turns: tuple[str, str]) -> None:
        """What was said so far: lines as the client leaves them, each hanging on the one before."""
        lines, parent = [], None
        for number, (role, text) in enumerate(turns):
            content: object = text if role == "user" else [{"type": "text", "text": text}]
            message: dict[str, object] = {"role": role, "content": content}
            if role == "assistant":
                message |= {"id": f"msg_{number}", "type": "message", "model": "claude-sonnet-4-5"}
            lines.append({
                "type": role, "uuid": f"u-{number}", "parentUuid": parent, "sessionId": SESSION,
                "isSidechain": False, "cwd": str(self.project), "version": "2.1.197", "gitBranch": "main",
                "timestamp": f"2026-11-15T13:41:{number:02}.899Z", "message": message,
            })  # fmt: skip
            parent = f"u-{number}"
        self.log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def told(self, event: str, **more: object) -> bytes:
        """What the client writes to a hook's stdin."""
        given = {
            "session_id": SESSION, "transcript_path": str(self.log), "cwd": str(self.project),
            "hook_event_name": event, "permission_mode": "default", "a_field_of_tomorrow": [1],
        }  # fmt: skip
        return json.dumps(given | more).encode()

    def environ(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.base), "CLAUDE_CONFIG_DIR": str(self.home),
            "CLAUDE_PROJECT_DIR": str(self.project), "CLAUDE_CODE_ENTRYPOINT": "cli", "PYTHONUTF8": "1",
        } | more  # fmt: skip

    def start(self, event: str, *args: str, **environ: str) -> subprocess.Popen[bytes]:
        """One hook; loaded already, unless a test asks what is loaded."""
        command, pipe = [sys.executable, "-m", "nacre", "hook", event, *args], subprocess.PIPE
        if not warm.IS_POSSIBLE:
            command.insert(1, "-P")  # as the installed script: what lies in the project is no part of nacre
        env = self.environ(**environ)
        return begin(command, self.project, env, stdin=pipe, stdout=pipe, stderr=pipe)

    def raw(self, event: str, stdin: bytes, *args: str, **environ: str) -> tuple[int, bytes, str]:
        """Exit code, stdout and stderr of one hook."""
        with self.start(event, *args, **environ) as hook:
            out, err = hook.communicate(stdin, timeout=60)
        return hook.returncode, out, err.decode()

    def hook(self, event: str, **more: object) -> dict[str, dict[str, str]]:
        """What a hook answers that went well; empty for no answer."""
        code, out, err = self.raw(event, self.told(event, **more))
        assert (code, err) == (0, "")
        answer = json.loads(out) if out else {}
        assert isinstance(answer, dict)
        return answer

    def prompt(self, text: str, **more: object) -> str:
        """What a prompt brings with it."""
        answer = self.hook("UserPromptSubmit", prompt=text, **more)
        own = answer.get("hookSpecificOutput", {})
        assert not own or own["hookEventName"] == "UserPromptSubmit"
        return own.get("additionalContext", "")


def waited_for(what: Callable[[], bool]) -> bool:
    """Whether it comes true: what a hook leaves behind goes on by itself."""
    until = time.monotonic() + 30
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
