"""The real program in processes of its own: `nacre sim` to talk to, and `nacre` to talk with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nacre.messages.blocks import Json
from nacre.messages.jsonl import decode
from nacre.messages.records import Said
from nacre.messages.view import View
from tests.cli.program import begin, world

SAFETY_SECONDS = 30.0
"""How long anything may take before the test gives up: a net, not a measure."""
MODEL = "claude-opus-5-5"


class Sim:
    """A running `nacre sim`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def script(self, *replies: Json) -> None:
        """Forget everything and say these from now on."""
        self._post("/sim/reset", None)
        self.extend(*replies)

    def extend(self, *replies: Json) -> None:
        self._post("/sim/script", list(replies))

    def log(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/sim/log?bodies=1", timeout=SAFETY_SECONDS) as answer:
            requests = json.load(answer)["requests"]
        assert isinstance(requests, list)
        return requests

    def environ(self, **more: str) -> dict[str, str]:
        """Variables that point the program here."""
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "any",
            "NACRE_MODEL": MODEL,
            # These stories are about other things than who may call what.
            "NACRE_PERMISSIONS_DEFAULT_MODE": "bypassPermissions",
            # Nor about requests beside the conversation's own, which would take replies of the script.
            "NACRE_EXTRACT": "false",
            "NACRE_DREAM": "false",
            "NACRE_RECALL_SELECTOR": "false",
            **more,
        }

    def _post(self, route: str, body: Json) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{route}", data=data, method="POST")
        urllib.request.urlopen(request, timeout=SAFETY_SECONDS).close()


@contextmanager
def running_sim(cwd: Path) -> Iterator[Sim]:
    """`nacre sim`, until the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nacre", "sim", "--json"],
        cwd=cwd, env=world(cwd), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield Sim(json.loads(process.stdout.readline())["url"])
    finally:
        process.terminate()
        process.communicate(timeout=SAFETY_SECONDS)


@contextmanager
def begun(cwd: Path, *args: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """`nacre ARGS`, still running, with pipes; killed when the block is left."""
    process = begin(
        [sys.executable, "-m", "nacre", *args], cwd, world(cwd, **environ), text=True, bufsize=1,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SAFETY_SECONDS)


def until(stream: IO[str] | None, wanted: Callable[[str], bool]) -> list[str]:
    """The lines up to and including the first one that is wanted."""
    assert stream is not None
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if wanted(line):
            return lines
    raise AssertionError(f"it never came: {lines}")


def eventually(is_so: Callable[[], bool], what: str) -> None:
    """Come back when it is so."""
    deadline = time.monotonic() + SAFETY_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process is more than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def logs(cwd: Path) -> list[Path]:
    """Every session log of this world, oldest first."""
    return sorted((cwd / "home" / "projects").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)


def said(path: Path) -> list[str]:
    """A log as it would be sent: `role: words or calls`, and the proof that it is whole."""
    records = decode(iter(path.read_bytes().splitlines()), session_id=path.stem).records
    assert not View.of(records).open_calls
    return [_words(message) for message in View.of(records).messages]


def user_texts(path: Path) -> list[str]:
    """What the person typed, in order."""
    records = decode(iter(path.read_bytes().splitlines()), session_id=path.stem).records
    spoken = [record for record in records if isinstance(record, Said) and record.role == "user"]
    return [record.message.text for record in spoken if not record.meta and record.message.text]


def _words(message: Any) -> str:
    def shown(block: Any) -> str:
        match block:
            case {"type": "text", "text": str(text)}:
                return text
            case {"type": "tool_use", "name": name}:
                return f"[{name}]"
            case {"type": "tool_result", "content": list(parts)}:
                return "=" + "".join(part["text"] for part in parts)
            case {"type": "tool_result", "content": str(text)}:
                return f"={text}"
            case _:
                return str(block)

    return f"{message['role']}: " + " | ".join(shown(block) for block in message["content"])


def keep_alive(pid_file: Path) -> str:
    """A command that says who it is and then never ends."""
    return f"echo $$ > {pid_file}; sleep 1000 & echo $! >> {pid_file}; wait"


def pids(pid_file: Path) -> list[int]:
    """Who said so; empty while not all have."""
    if not pid_file.exists():
        return []
    found = [int(line) for line in pid_file.read_text().split()]
    return found if len(found) == 2 else []


def end(group_of: list[int]) -> None:
    """What a killed program could not end itself."""
    for pid in group_of:
        if is_running(pid):
            os.kill(pid, 9)
