"""A purge in the sessions of a home: every quotation goes, every other byte stays (M14b)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from nacre.memory.files.location import MemoryPaths, locate
from nacre.memory.format.entry import MemoryChange, MemoryDraft
from nacre.memory.memory import Memory
from nacre.memory.purge.home import ELSEWHERE, FOREIGN, OWN_FILE, TYPED, UNREACHED, PurgeOptions, QuotedPlace
from nacre.memory.purge.memory import PurgeTarget, erase, purge_target
from nacre.memory.purge.quotations import LineCleaner
from nacre.memory.purge.traces import MARK, Traces
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.jsonl import decode
from nacre.store.history import History
from nacre.store.session_log import SessionLog

BODY = 'The build server is called "hopper" and lives in the basement of house 12.'
INDEX = "<system-reminder>\n- [Hopper](project_hopper.md) — x\n- [Tea](tea.md) — y\n</system-reminder>"
CHANGE = MemoryChange(author="user", reason="told")


def line(kind: str, content: Json, number: int, **more: Json) -> JsonObject:
    role = kind if kind in {"user", "assistant"} else "user"
    return {
        "parentUuid": f"u{number - 1}" if number else None,
        "isSidechain": False,
        "type": kind,
        "uuid": f"u{number}",
        "sessionId": "s",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "cwd": "/work",
        "message": {"role": role, "content": content},
        **more,
    }


def quoted() -> list[JsonObject]:
    """A session in which the memory was attached, recalled, retold, reasoned about and typed."""
    call: Json = {
        "type": "tool_use",
        "id": "t1",
        "name": "Read",
        "input": {"file_path": "/x/memory/project_hopper.md"},
    }
    answer: Json = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": f"     1\t{BODY}\n     2\tPIN: 4711",
    }
    thought: Json = {"type": "thinking", "thinking": f"I know: {BODY}", "signature": "c2lnbmVk"}
    return [
        line("user", INDEX, 0, isMeta=True),
        line("user", f"<system-reminder>{BODY}</system-reminder>\nWhere is it?", 1),
        line("assistant", [call], 2),
        line("user", [answer], 3, toolUseResult={"file": {"content": BODY}}),
        line("assistant", [thought, {"type": "text", "text": f"It says: {BODY} So there."}], 4),
        line("user", "Green tea for everybody, please.", 5),
    ]  # fmt: skip


def dumped(lines: list[JsonObject], *, is_ascii: bool = False) -> bytes:
    return b"".join(json.dumps(each, ensure_ascii=is_ascii).encode() + b"\n" for each in lines)


async def kept(home: Path, root: Path, body: str = BODY, name: str = "hopper") -> Memory:
    memory = await Memory.at(locate(MemoryPaths(home=home, cwd=root)), root)
    await memory.save(MemoryDraft(body=f"{body}\nPIN: 4711", name=name), CHANGE, allow_secret=True)
    return memory


def session(home: Path, name: str, data: bytes) -> Path:
    path = home / "projects" / "-work" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


async def purged(home: Path, memory: Memory, past: PurgeTarget, **wishes: bool) -> list[QuotedPlace]:
    sweep = past.sweep(home, wishes=PurgeOptions(**wishes))
    assert sweep.clean(spot for spot in sweep.look() if not spot.why) == []
    await erase(memory, past.file, CHANGE)
    return sweep.remaining()


@pytest.mark.parametrize("is_ascii", [False, True])
async def test_every_quotation_goes_and_every_other_byte_stays(tmp_path: Path, is_ascii: bool) -> None:
    memory = await kept(tmp_path / "home", tmp_path)
    lines = quoted()
    other = dumped([line("user", "Nothing to do with it: ünïcode.", 0)], is_ascii=is_ascii)
    path = session(tmp_path / "home", "s1", dumped(lines, is_ascii=is_ascii))
    unrelated = session(tmp_path / "home", "s2", other)
    inode = unrelated.stat().st_ino
    past = purge_target(memory, "project_hopper.md")
    assert await purged(tmp_path / "home", memory, past) == []
    after = path.read_bytes()
    assert b"hopper" not in after and b"basement" not in after and b"4711" not in after
    assert after.splitlines()[5] == dumped(lines, is_ascii=is_ascii).splitlines()[5]
    assert b"[Tea](tea.md)" in after
    assert (unrelated.read_bytes(), unrelated.stat().st_ino) == (other, inode)


async def test_the_log_still_reads_as_the_same_records(tmp_path: Path) -> None:
    """The view loses the memory's words and nothing else; signed reasoning becomes a mark."""
    before = decode(dumped(quoted()).splitlines(), session_id="s")
    memory = await kept(tmp_path / "home", tmp_path)
    path = session(tmp_path / "home", "s", dumped(quoted()))
    await purged(tmp_path / "home", memory, purge_target(memory, "project_hopper.md"))
    after = decode(path.read_bytes().splitlines(), session_id="s")
    assert [type(each) for each in after.records] == [type(each) for each in before.records]
    assert [each.id for each in after.records] == [each.id for each in before.records]
    assert after.problems == before.problems
    assert after.records[-1] == before.records[-1]
    assert b'"signature"' not in path.read_bytes()
    assert f'"text": "It says: {MARK}. So there."' in path.read_text()


async def test_what_the_person_typed_is_named_and_goes_only_when_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    memory = await kept(home, tmp_path)
    data = dumped([line("user", f"remember: {BODY}", 0)])
    path = session(home, "s", data)
    (home / "chat_history").write_text(f"remember: {BODY}\nhello\n")
    past = purge_target(memory, "project_hopper.md")
    sweep = past.sweep(home, wishes=PurgeOptions())
    typed = [spot for spot in sweep.look() if spot.why]
    assert {(spot.path, spot.line, spot.why) for spot in typed} == {
        (path, 1, TYPED),
        (home / "chat_history", 0, TYPED),
    }
    assert path.read_bytes() == data
    assert await purged(home, memory, past, own_words=True) == []
    assert json.loads(path.read_bytes())["message"]["content"] == f"remember: {MARK}."
    assert (home / "chat_history").read_text() == f"remember: {MARK}.\nhello\n"


async def test_a_session_that_is_open_elsewhere_is_named_and_never_touched(tmp_path: Path) -> None:
    home = tmp_path / "home"
    memory = await kept(home, tmp_path)
    path = session(home, "s", dumped(quoted()))
    sweep = purge_target(memory, "project_hopper.md").sweep(home, wishes=PurgeOptions())
    with SessionLog.open(path, home=home):
        spots = [spot for spot in sweep.look() if spot.path == path]
        assert spots and all(spot.is_busy and "is open in process" in spot.why for spot in spots)
        failed = sweep.clean(QuotedPlace(path=path, session="s", line=1) for _ in range(1))
        assert [spot.session for spot in failed] == ["s"]
        assert path.read_bytes() == dumped(quoted())
    assert any(not spot.why for spot in sweep.look() if spot.path == path)


async def test_files_beside_a_log_are_rid_of_it_too(tmp_path: Path) -> None:
    """Tool results and notes change; copies for going back that are its own go; a file of yours stays."""
    home = tmp_path / "home"
    memory = await kept(home, tmp_path)
    content = (memory.location.directory / "project_hopper.md").read_bytes()
    folder = session(home, "s", dumped(quoted())).with_suffix("")
    for part in ("tool-results", "checkpoints", "subagents"):
        (folder / part).mkdir(parents=True)
    (folder / "tool-results" / "t9.txt").write_text(f"before\n{BODY}\nafter\n")
    (folder / "notes.md").write_text(f"# Notes\n- {BODY}\n")
    (folder / "subagents" / "agent-1.jsonl").write_bytes(dumped([line("user", BODY, 0, isSidechain=True)]))
    copy = folder / "checkpoints" / hashlib.sha256(content).hexdigest()
    copy.write_bytes(content)
    own = folder / "checkpoints" / ("0" * 64)
    own.write_text(f"my own file: {BODY}\n")
    left = await purged(home, memory, purge_target(memory, "project_hopper.md"))
    assert [(spot.path, spot.why) for spot in left] == [(own, OWN_FILE)]
    assert not copy.exists()
    assert (folder / "tool-results" / "t9.txt").read_text() == f"before\n{MARK}.\nafter\n"
    assert BODY not in (folder / "notes.md").read_text()
    assert b"hopper" not in (folder / "subagents" / "agent-1.jsonl").read_bytes()


async def test_logs_of_another_program_are_changed_only_when_asked(tmp_path: Path) -> None:
    """Its writer takes no lease of ours: it could be at work this very moment."""
    home = tmp_path / ".claude"
    memory = await kept(home, tmp_path)
    path = session(home, "s", dumped(quoted()))
    past = purge_target(memory, "project_hopper.md")
    careful = past.sweep(home, wishes=PurgeOptions(), is_shared=True)
    assert {spot.why for spot in careful.look() if spot.session} == {FOREIGN}
    asked = past.sweep(home, wishes=PurgeOptions(foreign=True), is_shared=True)
    assert asked.clean(spot for spot in asked.look() if not spot.why) == []
    assert b"hopper" not in path.read_bytes()
    with SessionLog.open(path, home=home):
        pass
    assert [spot for spot in careful.look() if spot.session] == []


async def test_what_nacre_did_not_write_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    memory = await kept(home, tmp_path)
    (home / "todo.txt").write_text(BODY)
    left = await purged(home, memory, purge_target(memory, "project_hopper.md"))
    assert [(spot.path, spot.why) for spot in left] == [(home / "todo.txt", ELSEWHERE)]


async def test_earlier_versions_are_remembered_and_another_memory_that_says_the_same_is_named(
    tmp_path: Path,
) -> None:
    memory = await kept(tmp_path / "home", tmp_path)
    await memory.correct("hopper", "It moved to the attic of the town hall last spring.", CHANGE)
    (memory.location.directory / "other.md").write_text(f"---\nname: o\n---\n\n{BODY}\n")
    past = purge_target(memory, "project_hopper.md")
    assert [spot.path.name for spot in past.shared] == ["other.md"]
    path = session(
        tmp_path / "home", "s", dumped([line("assistant", "It moved to the attic of the town hall.", 0)])
    )
    await purged(tmp_path / "home", memory, past)
    assert MARK in path.read_text()


def test_a_torn_line_is_cleaned_as_text() -> None:
    cleaned = LineCleaner(Traces("project_hopper.md", [BODY])).clean(
        b'{"type":"assistant","x":"' + BODY[:60].encode()
    )
    assert (b"hopper" in cleaned.line, cleaned.erased) == (False, 1)


@pytest.mark.parametrize(
    "like", [b'{"a":"\xc3\xa4 %s"}\r\n', b'{"a": "\\ud83d %s", "b": 1.50e3}\n', b'{"a":"%s","a":"x"}']
)
def test_a_cleaned_line_is_spaced_escaped_and_ended_as_it_was(like: bytes) -> None:
    quoted = json.dumps(BODY)[1:-1].encode()
    cleaned = LineCleaner(Traces("project_hopper.md", [BODY])).clean(like % quoted)
    assert cleaned.line.replace(b"1500.0", b"1.50e3") == like % f"{MARK}.".encode()
    assert cleaned.erased == 1


SECRET = "kF9#qLz2!mVw"


async def test_a_password_of_the_memory_goes_wherever_it_is_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    memory = await kept(home, tmp_path, f"The staging password is {SECRET} as of today.", "staging")
    other = memory.location.directory / "other.md"
    other.write_text(f"---\nname: other\n---\n\nLog in with {SECRET} first.\n")
    await memory.save(MemoryDraft(body="Ravens are clever birds.", name="ravens"), CHANGE)
    other.write_text("---\nname: other\n---\n\nAsk Wu before you log in.\n")
    shown: Json = {"type": "tool_result", "tool_use_id": "t1", "content": f"DB_PASSWORD={SECRET}"}
    called: Json = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": f"login -p{SECRET}"}}
    path = session(
        home, "s", dumped([line("assistant", [called], 0), line("user", [shown], 1, gitBranch="main")])
    )
    folder = path.with_suffix("")
    (folder / "tool-results").mkdir(parents=True)
    (folder / "session-memory").mkdir()
    (folder / "tool-results" / "t1.txt").write_text(f'{{"pw": "{SECRET}"}}\n')
    (folder / "session-memory" / "summary.md").write_text(f"# Notes\nIt is {SECRET}.\n")
    left = await purged(home, memory, purge_target(memory, "project_staging.md"))
    assert left == []
    files = [path for path in home.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    history = History(memory.location.history)
    contents = [history.repository.read(name)[1] for name in history.repository.names()]
    assert contents and not any(SECRET.encode() in content for content in contents)
    assert any(b"Log in with [erased memory] first." in content for content in contents)


async def test_a_rare_word_where_nothing_can_be_changed_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    memory = await kept(home, tmp_path, f"The staging password is {SECRET} as of today.", "staging")
    path = session(home, "s", dumped([line("assistant", "hello", 0, gitBranch=f"try-{SECRET}")]))
    left = await purged(home, memory, purge_target(memory, "project_staging.md"))
    assert [(spot.path, spot.line, spot.why) for spot in left] == [(path, 1, UNREACHED)]


async def test_a_rare_word_in_a_memory_of_another_scope_is_named(tmp_path: Path) -> None:
    memory = await kept(tmp_path / "home", tmp_path, f"The staging password is {SECRET}.", "staging")
    other = await kept(tmp_path / "elsewhere", tmp_path, f"Log in with {SECRET}.", "login")
    past = purge_target(memory, "project_staging.md", others=[other])
    assert {spot.path for spot in past.shared} >= {other.location.directory / "project_login.md"}
    assert past.traces.rare_words == ("project_staging",)
