"""Acts that change the disk, for the tests of faults: `python -m tests.faults.acts`.

Each has a start (`prepare`), the change itself (`run`), and what a reader finds afterwards (`state`). The
program does each in a fork, so that Python and nacre are loaded once, and answers with one line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nacre.agents.team_tasks import TeamTasks
from nacre.app.build_toolset import LearnedPermissions
from nacre.cli.main import main as command
from nacre.errors import NacreError
from nacre.layers.l3_notes.notes import NotesFile
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox, box_path, peek
from nacre.memory.format.entry import MemoryDraft
from nacre.memory.memory import Memory
from nacre.settings.trust import consent, consented, is_trusted, trust
from nacre.store.session_log import SessionLog, log_path
from nacre.store.tool_results import ToolResultStore
from nacre.tools.rules import parse_rule
from tests.faults.injected import install

TIMES = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|\+00:00)?)?")
FACT = "The staging database moves to port 6432 on Thursday."
LATER = "The release train leaves on Monday at noon."


class FailedError(Exception):
    """A command that printed an error and ended with another code than 0."""


def home(base: Path) -> Path:
    return base / "home"


def project(base: Path) -> Path:
    return base / "project"


def cli(base: Path, *arguments: str) -> str:
    """Run a command of nacre in the project and return what it printed."""
    os.chdir(project(base))
    os.environ |= {"NACRE_HOME": str(home(base)), "HOME": str(base), "NACRE_MODEL": "embedded"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command(list(arguments))
        out.seek(0)
        err.seek(0)
        if code:
            raise FailedError(err.read().strip() or f"exit code {code} without a message")
        return out.read()


def with_memory(base: Path, act: Callable[[Memory], Any]) -> Any:
    async def run() -> Any:
        environ = {"NACRE_HOME": str(home(base)), "HOME": str(base)}
        return await act(await Memory.open(project(base), environ=environ))

    return asyncio.run(run())


def two_memories(base: Path) -> None:
    cli(base, "memory", "save", FACT, "--file", "staging.md")
    cli(base, "memory", "save", LATER, "--file", "train.md")


def files_of(folder: Path) -> dict[str, str]:
    """Every file below a folder, without the times in it."""
    return {
        str(path.relative_to(folder)): TIMES.sub("<time>", path.read_text(errors="replace"))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".consolidate-lock")
    }


def memories(base: Path) -> Any:
    """The memory directory after an opening, which must agree with the history."""
    cli(base, "memory", "list")

    async def read(memory: Memory) -> Any:
        log = await memory.log(limit=99)
        return {
            "files": files_of(memory.location.directory),
            "log": [[one.author, one.reason.split(" ", 1)[0], *one.files] for one in log],
        }

    return with_memory(base, read)


def sessions(base: Path) -> list[Path]:
    return sorted((home(base) / "projects").glob("*/*.jsonl"))


def recording(base: Path) -> None:
    """A recorded conversation that is long enough to be compacted."""
    said: list[dict[str, str]] = []
    for number in range(12):
        said.append({"role": "user", "content": f"Question {number}: " + "why does the deploy fail? " * 60})
        said.append({"role": "assistant", "content": f"Answer {number}: " + "the port is taken. " * 80})
    (project(base) / "recorded.json").write_text(json.dumps(said))


def import_session(base: Path) -> None:
    cli(base, "sessions", "import", str(project(base) / "recorded.json"))


def long_session(base: Path) -> None:
    recording(base)
    import_session(base)


def log_lines(base: Path) -> Any:
    """The types of the lines of each session's log after an opening; every line must be a record."""
    for path in sessions(base):
        SessionLog.open(path, home=home(base)).close()
    return [
        [json.loads(line).get("subtype") or json.loads(line)["type"] for line in path.open()]
        for path in sessions(base)
    ]


def append(base: Path) -> None:
    path = log_path(home(base), project(base), "s-1")
    with SessionLog.open(path, home=home(base)) as log:
        log.append(b'{"type":"user","n":2}\n', sync=True)


def start_log(base: Path) -> None:
    with SessionLog.create(home(base), project(base), session="s-1") as log:
        log.append(b'{"type":"user","n":1}\n', sync=True)


def inbox(base: Path) -> Mailbox:
    return Mailbox(box_path(base / "teams" / "t" / "inboxes", "reviewer"))


def send(base: Path, number: int) -> None:
    inbox(base).put(letter(number))


def letter(number: int) -> Letter:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Letter(id=f"l-{number}", sender="lead", to="reviewer", text=f"Read file {number}.", at=at)


def receive(base: Path) -> None:
    box = inbox(base)
    found = box.waiting()
    assert [one.id for one in found.letters] == ["l-1"]
    box.settle(found.position)


def mail_state(base: Path) -> Any:
    found = peek(inbox(base).path)
    # A line that a kill tore is set aside; it is no letter.
    return [[one.id for one in found.received], [one.id for one in found.waiting]]


def spoken(base: Path) -> Any:
    """What was said in each session, and the memories."""
    said = []
    for path in sessions(base):
        SessionLog.open(path, home=home(base)).close()
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["type"] in {"user", "assistant"}:
                said.append([record["type"], json.dumps(record["message"]["content"])[:200]])
    return {"said": said, "memories": memories(base)["files"]}


def daydream(base: Path) -> None:
    two_memories(base)

    async def save(memory: Memory) -> None:
        for name in ("one", "two"):
            draft = MemoryDraft(
                body="The wiki of the team is at wiki.example.com.", file=f"{name}.md", name=f"wiki {name}",
                description="where the wiki is", origin="agent",
            )  # fmt: skip
            await memory.save(draft)
        (memory.location.directory / "unlisted.md").write_text(
            "---\nname: unlisted\ndescription: not in the index\ntype: project\n---\nWe met on Friday.\n"
        )

    with_memory(base, save)
    cli(base, "memory", "list")


def results(base: Path) -> ToolResultStore:
    return ToolResultStore(base / "results")


def notes(base: Path) -> NotesFile:
    return NotesFile.of(base / "session")


def permissions(base: Path) -> LearnedPermissions:
    return LearnedPermissions(home(base), project(base))


def write_import(base: Path) -> None:
    two_memories(base)
    folder = base / "notes"
    folder.mkdir()
    for number in range(3):
        (folder / f"note_{number}.md").write_text(f"# Note {number}\n\nThe fact with number {number}.\n")


@dataclass(frozen=True, slots=True)
class Act:
    """One change of the disk."""

    prepare: Callable[[Path], Any]
    run: Callable[[Path], Any]
    state: Callable[[Path], Any]
    grows: bool = False
    """The change is several, each complete: the state may be between the old and the new one."""
    repeats: bool = False
    """A change that was acknowledged may happen again: a received letter is known by its id."""


ACTS: dict[str, Act] = {
    "save": Act(two_memories, lambda base: cli(base, "memory", "save", "Ana owns the deploys."), memories),
    "first-save": Act(project, lambda base: cli(base, "memory", "save", FACT), memories),
    "correct": Act(
        two_memories,
        lambda base: with_memory(base, lambda one: one.correct("staging", "It moves to port 7000.")),
        memories,
    ),
    "forget": Act(two_memories, lambda base: cli(base, "memory", "forget", "staging", "--yes"), memories),
    "undo": Act(two_memories, lambda base: cli(base, "memory", "undo"), memories),
    "import": Act(write_import, lambda base: cli(base, "memory", "import", str(base / "notes")), memories),
    "dream": Act(
        daydream, lambda base: cli(base, "dream", "--force", "--by-rule", "--yes", "--json"), memories
    ),
    "import-session": Act(recording, import_session, log_lines),
    "compact": Act(long_session, lambda base: cli(base, "compact", "latest", "--by-rule"), log_lines),
    "turn": Act(
        two_memories,
        lambda base: cli(base, "-p", "Remember that our wiki is at https://wiki.example.com"),
        spoken,
        grows=True,
    ),
    "log": Act(start_log, append, log_lines),
    "mail-send": Act(lambda base: send(base, 1), lambda base: send(base, 2), mail_state),
    "mail-receive": Act(lambda base: send(base, 1), receive, mail_state, repeats=True),
    "offload": Act(
        lambda base: results(base).keep("call-1", "first " * 99),
        lambda base: results(base).keep("call-2", "second " * 9_999),
        lambda base: [[one, results(base).read(one)] for one in ("call-1", "call-2")],
    ),
    "notes": Act(
        lambda base: notes(base).write("# Old\n"), lambda base: notes(base).write("# New\n"),
        lambda base: notes(base).read(),
    ),
    "trust": Act(
        lambda base: trust(home(base), base), lambda base: trust(home(base), project(base)),
        lambda base: [is_trusted(home(base), one) for one in (base, project(base))],
    ),
    "consent": Act(
        lambda base: consent(home(base), base, project(base)),
        lambda base: consent(home(base), project(base), base),
        lambda base: [sorted(map(str, consented(home(base), one))) for one in (base, project(base))],
    ),
    "permission": Act(
        lambda base: permissions(base).add(parse_rule("Read(a)", "allow", "test")),
        lambda base: permissions(base).add(parse_rule("Read(b)", "allow", "test")),
        lambda base: [one.text for one in permissions(base).rules()],
    ),
    "task": Act(
        lambda base: (base / "team").mkdir() or TeamTasks(base / "team").add("Read the log."),
        lambda base: TeamTasks(base / "team").add("Write the report."),
        lambda base: [one.title for one in TeamTasks(base / "team").list().tasks],
    ),
}  # fmt: skip


def done(name: str, step: str, base: Path, kind: str, at: int) -> dict[str, Any]:
    """Do one step in this process and return what happened."""
    act = ACTS[name]
    project(base).mkdir(parents=True, exist_ok=True)
    answer: dict[str, Any] = {"ok": True}
    layer = install(base, kind, at) if step == "run" else None
    try:
        found = getattr(act, step)(base)
        if step == "state":
            answer["state"] = json.loads(json.dumps(found).replace(str(base), "<base>"))
    except (NacreError, FailedError) as error:
        answer = {"ok": False, "error": str(error)}
    except BaseException as error:  # noqa: BLE001 - a fork must not continue as the server
        answer = {"ok": False, "error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    if layer is not None:
        answer["points"] = layer.points
        answer["modules"] = sorted(sys.modules)
    return answer


def serve() -> None:
    """Answer each line of the input, a JSON list, with one line; what is killed answers with its signal."""
    write = os.write
    for line in sys.stdin:
        name, step, base, kind, at = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(2, 1)
            # The input is the server's; a command must neither read it nor wait for it.
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            data = json.dumps(done(name, step, Path(base), kind, at)).encode()
            while data:
                data = data[write(writing, data) :]
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answers:
            text = answers.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer = json.loads(text or json.dumps({"ok": False, "killed": code}))
        for module in answer.pop("modules", ()):
            # Loaded here once and not in every later fork.
            if module.startswith("nacre"):
                importlib.import_module(module)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
