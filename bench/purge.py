"""Purge memories that sessions used in many ways, and search every file of the home for their values (M14b).

Each memory has a value of another kind. A session by script shows it with a tool, repeats it in other
spellings, hands it to a sub-agent and back by mail, and puts it into notes, a summary, a plan, an offloaded
result, a proposal and an extraction. Then `nacre memory forget --purge` runs in a process of its own, also
killed at its steps and repeated. The search here is independent of nacre's: git, zlib, base64 and substrings.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote

from bench.machine import bar
from nacre.app.open_agent import OpenedAgent, open_agent
from nacre.memory.checks.review import Proposal, propose
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.messages.blocks import JsonObject
from nacre.session.layer import CompactionRequest
from nacre.settings import Settings, load
from nacre.testing import Cast, ScriptedProvider, call, say

NOTES = "<session-notes>"
EXTRACT = "<memory-extraction>"
SUMMARY = "Answer this message in words alone."
HAND = MemoryChange(author="user", reason="by hand")
KINDS = (
    ("kF9#qLz2!mVw{n}", "The staging database of team {n} takes the password {v} as of today.",
     "Login {v} works for the old printer on floor {n}."),
    ("zitronenfalter{w}", "Password: {v} opens the cupboard of room {n}.",
     "Gate {n} needs a word at night. Passcode = {v}"),
    ("wJalrXUtnFEMI/K7MDENG/bPx{n}Y", "Rotate the signing key {v} of service {n} in spring.",
     "Job {n} signs with {v} until autumn."),
    ("4111 1111 1111 {n:04}", "The company card for order {n} is {v} until spring.",
     "Travel {n} was paid with {v} by mistake."),
    ("+49 170 55512{n:02}", "The plumber of building {n} answers {v} after six.",
     "In an emergency on site {n} dial {v} at once."),
    ("DE89 3704 0044 0532 01{n:02} 00", "Refunds of shop {n} go to {v} and nowhere else.",
     "Rent for office {n} is transferred to {v} quarterly."),
    ("8412{n:04}", "The customer behind ticket {n} has the number {v} there.",
     "Parcel {n} travels as {v} through customs."),
    ("https://intranet.example/wiki/x{n}?id=9", "Read {v} before a change of module {n}.",
     "Holidays of group {n} are listed under {v} only."),
    ("ada.lovelace{n}@example.org", "Invoices of month {n} are sent to {v} by post.",
     "Complaints about lift {n} reach {v} directly."),
    ("vault{n}.ops.example.net", "The vault of region {n} runs on {v} since May.",
     "Backups of cluster {n} are copied to {v} nightly."),
    ("quetzal_ledger_{w}", "Never lock the table {v} in job {n}.",
     "Migration {n} renames {v} without downtime."),
    ("Marguerite Duval{w}", "For questions on contract {n} ask {v} first.",
     "The interview about project {n} was led by {v} alone."),
    ("Brunnquell{w}", "The spare parts of machine {n} come from {v} again.",
     "Cables for rack {n} were bought at {v} last year."),
    ("seven {w} herons crossed the frozen {w}", "The phrase for the alarm of house {n} is “{v}”.",
     "Guard {n} asks for the sentence “{v}” on weekends."),
    ("Tourne{w}", "Le mot de passe du coffre {n} est {v} depuis mai.",
     "Porte {n} de la cave. Mot de passe = {v}"),
    ("mQ4tZ{n:02}xWk9", "预发布环境{n}的数据库密码是{v}，请勿外传。",
     "{n}号机器的管理员口令为{v}，下周更换。"),
)  # fmt: skip
"""Values, each with two sentences that have no six words in a row in common."""
WORDS = ("amsel", "birke", "dohle", "eiche", "fichte", "ginster", "hasel", "iltis", "kiefer", "linde")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    memories: int = 32
    purged: int = 28
    killed: int = 30
    """Steps of a purge at which it is killed, spread over all."""


FULL = Sizes()
TINY = Sizes(memories=4, purged=3, killed=2)


@dataclass(frozen=True, slots=True)
class Planted:
    """A memory with one value."""

    file: str
    sentence: str
    value: str

    @property
    def spellings(self) -> list[str]:
        value = self.value
        return [
            f"As it says: {value}.",
            f"In capitals {value.upper()}, in small letters {value.lower()}.",
            json.dumps({"answer": json.dumps({"is": f"x\n{value}\n"})}),
            f"curl 'https://x.example/?q={quote(value, safe='')}&p=1'",
            base64.b64encode(f"a={value};".encode()).decode(),
            f"It is {value[:6]}\n{value[6:]} there.",
            f"Without gaps {re.sub(r'[ -]', '', value)}." if value[-2:].isdigit() else "Nothing more.",
        ]


def planted(count: int) -> list[Planted]:
    found = []
    for number in range(count):
        pattern, *sentences = KINDS[number % len(KINDS)]
        turn = number // len(KINDS)
        value = pattern.format(n=number, w=WORDS[turn % len(WORDS)])
        sentence = sentences[turn % len(sentences)]
        found.append(Planted(f"memo_{number:02}.md", sentence.format(n=number, v=value), value))
    return found


def measure(sizes: Sizes = FULL) -> JsonObject:
    with tempfile.TemporaryDirectory(prefix="nacre-bench-") as folder:
        root = Path(folder).resolve()
        memories = planted(sizes.memories)
        asyncio.run(_play(root, memories))
        gone = memories[: sizes.purged]
        used = [len(holding(root / "home", one.value)) for one in memories]
        steps, wrong = _killed(root, memories[sizes.purged], sizes.killed)
        kept = _unrelated(root, memories[sizes.purged :])
        began = time.monotonic()
        ended = [purge(root, one.file) for one in gone]
        seconds = (time.monotonic() - began) / len(gone)
        clean = [done.returncode == 0 for done in ended]
        left = sum(len(holding(root / "home", one.value)) for one in gone)
        changed = sum(data != path.read_bytes() for path, data in kept.items())
    return {
        "memories": len(memories),
        "files_with_a_value_before": sum(used) / len(used),
        "purged": len(gone),
        "said_to_be_gone": sum(clean),
        "files_left": left,
        "unrelated_memories_changed": changed,
        "seconds_per_purge": round(seconds, 2),
        "killed": steps,
        "killed_not_completed": wrong,
        "failures": [done.stderr.strip()[-400:] for done in ended if done.returncode][:3],
        "bars": [
            bar("memories said to be gone, of those purged", sum(clean) / len(gone), at_least=1.0),
            bar("files with a value of a purged memory", left, at_most=0),
            bar("unrelated memories changed", changed, at_most=0),
            bar("killed purges that a repetition did not complete", wrong, at_most=0),
        ],
    }


def environment(root: Path) -> dict[str, str]:
    return {
        "HOME": str(root),
        "NACRE_HOME": str(root / "home"),
        "PATH": "/usr/bin:/bin",
        "NACRE_PERMISSIONS_DEFAULT_MODE": "bypassPermissions",
    }


def purge(root: Path, file: str, *, kill_at: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the purge of a memory; with `kill_at`, it is killed before its so manieth change of a file.

    `-B`, because compiled modules that only the first process writes would be steps of it.
    """
    command = [sys.executable, "-B", "-c", STEPS, str(kill_at), "memory", "forget", file, "--purge", "--yes"]
    return subprocess.run(
        command, cwd=root / "work", env=environment(root), capture_output=True, text=True, check=False
    )


STEPS = """
import os, signal, sys
at = int(sys.argv.pop(1))
count = 0
def watch(event, arguments):
    global count
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    changes = {"os.rename", "os.remove", "os.rmdir", "os.utime", "ctypes.dlsym", "sqlite3.connect"}
    if writes or event in changes:
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
from nacre.cli.main import main
code = main()
print(f"steps={count}", file=sys.stderr) if at < 0 else None
sys.exit(code)
"""


def _killed(root: Path, one: Planted, times: int) -> tuple[int, int]:
    """Kill a purge at many of its steps, each in a copy of the home; return how often, and the failures."""
    saved = root / "saved"
    shutil.copytree(root / "home", saved, symlinks=True)
    counted = purge(root, one.file, kill_at=-1)
    steps = int(counted.stderr.rpartition("steps=")[2])
    chosen = sorted({1 + number * (steps - 1) // max(times - 1, 1) for number in range(times)})
    killed = 0
    wrong = 0
    for step in chosen:
        shutil.rmtree(root / "home")
        shutil.copytree(saved, root / "home", symlinks=True)
        first = purge(root, one.file, kill_at=step)
        killed += first.returncode == -signal.SIGKILL
        again = purge(root, one.file)
        is_reported = "nothing was found" in first.stdout and "already purged" in again.stderr
        is_done = again.returncode == 0 or is_reported  # killed after its report, it was complete
        if not is_done or holding(root / "home", one.value):
            wrong += 1
            print(f"step {step} of {steps}: {again.returncode} {again.stderr[-300:]}", file=sys.stderr)
    shutil.rmtree(root / "home")
    saved.rename(root / "home")
    return killed, wrong


def _unrelated(root: Path, memories: list[Planted]) -> dict[Path, bytes]:
    (directory,) = (root / "home" / "projects").glob("*/memory")
    return {directory / one.file: (directory / one.file).read_bytes() for one in memories}


async def _play(root: Path, memories: list[Planted]) -> None:
    work = root / "work"
    (work / ".git").mkdir(parents=True)
    (work / ".git" / "HEAD").write_text("ref: refs/heads/trunk\n")
    on = {"NACRE_NOTES": "1", "NACRE_NOTES_FIRST_TOKENS": "3000", "NACRE_EXTRACT": "1", "NACRE_DREAM": "0"}
    on |= {"NACRE_TOOLS_DEFERRED": "0", "NACRE_BACKGROUND_IDLE_SECONDS": "0"}
    settings = replace(load(work, {**environment(root), **on}), is_interactive=True)
    for one in memories:
        async with open_agent(settings, provider=ScriptedProvider()) as ready:
            memory = ready.memories[0]
            draft = MemoryDraft(body=one.sentence, name=one.file[:-3], file=one.file)
            await memory.save(draft, HAND, allow_secret=True)
        await _session(settings, work, memory, one)
    environ = {**environment(root), "NACRE_MODEL": "embedded"}
    command = [sys.executable, "-m", "nacre", "dream", "--force", "--by-rule"]
    subprocess.run(command, cwd=work, env=environ, capture_output=True, check=False)


async def _session(settings: Settings, work: Path, memory: Memory, one: Planted) -> None:
    """One session in which the value goes every way there is."""
    (work / "app.conf").write_text(f"# settings\nvalue = {one.value}\n")
    (work / "big.log").write_text("".join(f"{n:05} request with {one.value} done\n" for n in range(4_000)))
    child = ScriptedProvider([call("Glob", pattern="*.conf"), say(f"It uses {one.value}.")])
    letter = call("SendMessage", to="main", message=f"Is it {one.value}?", summary=f"about {one.value}")
    poet = ScriptedProvider([letter, say("I have asked.")], otherwise=say("Good."))
    fork = ScriptedProvider(otherwise=say("Nothing."))
    notes = ScriptedProvider(otherwise=say("Up to date."))
    summary = ScriptedProvider(otherwise=say(f"<summary>\n1. Request:\nUse {one.value}.\n</summary>"))
    main = ScriptedProvider([call("Read", file_path="app.conf")], otherwise=say(f"So it is {one.value}."))
    main.script(call("Bash", command="cat big.log"), say("\n\n".join(one.spellings)))
    main.script(call("Agent", description="look", prompt=f"Look for {one.value}.", subagent_type="explore"))
    start = {"description": "ask", "prompt": f"You ask about {one.value}.", "name": "asker"}
    main.script(say("Found."), call("Agent", **start, run_in_background=True), say("It asks."))
    parts = {NOTES: notes, EXTRACT: fork, SUMMARY: summary, "You ask about": poet, "Look for": child}
    async with open_agent(settings, provider=Cast(main, parts)) as ready:
        writer = ready.agent.session.writer
        file = writer.folder / "session-memory" / "summary.md"  # type: ignore[attr-defined]
        notes.script(
            call("Write", file_path=str(file), content=f"# Notes\n\nUses {one.value}.\n"), say("Done.")
        )
        body = f"---\nname: {one.file[:-3]}\ntype: project\n---\n\n{one.sentence}\n\nStill so.\n"
        path = memory.location.directory / one.file
        fork.script(call("Write", file_path=str(path), content=body), say("Saved."))
        for words in ("Read app.conf and the log.", "Have somebody look.", "Have somebody ask.", "And now?"):
            await _said(ready, words)
        await ready.plan.write(f"1. Use {one.value}.\n")
        await ready.compact.compact(CompactionRequest())
        await _said(ready, "Where were we?")
    proposal = Proposal(
        file=one.file, before=None, after=f"{one.sentence} Maybe.".encode(), author="dream", reason="x"
    )
    propose(memory.location, proposal)


async def _said(ready: OpenedAgent, words: str) -> None:
    async for _ in ready.agent.stream(words):
        pass
    while running := ready.background.running():
        for name in running:
            await ready.background.wait(name)


def holding(home: Path, value: str) -> list[str]:
    """Files of a home with a value, decoded with other means than nacre's."""
    folded = value.lower()
    squeezed = re.sub(r"[^0-9a-z]", "", folded)
    is_number = not re.search("[g-z]", folded) and value[-2:].isdigit()
    found = []
    for path in sorted(home.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        for data in _contents(path):
            text = data.decode("utf-8", "replace").lower()
            flat = text.replace("\\", "").replace("\n", "").replace('"', "")
            views = (text, unquote(text), flat)
            is_there = any(folded in view for view in (*views, *_from_base64(data)))
            if is_there or (is_number and squeezed in re.sub(r"(?<=\w)[ -](?=\w)", "", text)):
                found.append(str(path.relative_to(home)))
                break
    return found


def _from_base64(data: bytes) -> Iterator[str]:
    """What pieces of Base64 stand for: whole values, because two may differ in their last characters only."""
    for piece in set(re.findall(rb"[A-Za-z0-9+/]{12,}", data)):
        for start in range(4):
            usable = piece[start : start + (len(piece) - start) // 4 * 4]
            tail = piece[start + len(usable) :]
            whole = usable + (tail + b"=" * (4 - len(tail)) if len(tail) > 1 else b"")
            yield base64.b64decode(whole).decode("utf-8", "replace").lower()


def _contents(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    yield data
    if path.suffix == ".pack":
        repository = str(path.parent.parent.parent)
        command = ["git", "--git-dir", repository, "cat-file", "--batch-all-objects", "--batch"]
        yield subprocess.run(command, capture_output=True, check=True).stdout
    if data.startswith(b"SQLite format 3\0"):
        with contextlib.closing(sqlite3.connect(path)) as database:
            tables = database.execute("select name from sqlite_master where type = 'table'").fetchall()
            for row in (row for (name,) in tables for row in database.execute(f'select * from "{name}"')):
                yield "\n".join(map(str, row)).encode(errors="replace")
    with contextlib.suppress(zlib.error):
        yield zlib.decompress(data)


if __name__ == "__main__":
    print(json.dumps(measure(TINY if "--tiny" in sys.argv else FULL), indent=1))
    os._exit(0)
