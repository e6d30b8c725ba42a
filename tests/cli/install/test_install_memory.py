"""`nacre install claude-code`: one memory for nacre and Claude Code, without a variable, and two again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nacre.cli.main import main
from nacre.store.home import slug
from tests.cli.program import ended
from tests.cli.program import world as environment

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person in a project, with nothing configured."""
    (tmp_path / "project").mkdir()
    for name in ("NACRE_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def said(capture: Capture, *args: str) -> str:
    capture.readouterr()
    code = main([*args])
    out, err = capture.readouterr()
    assert (code, err) == (0, "")
    return out


def memories(home: Path, project: Path) -> set[str]:
    folder = home / "projects" / slug(str(project)) / "memory"
    return {path.name for path in folder.glob("*.md")} - {"MEMORY.md"}


def listed(capture: Capture) -> set[str]:
    return {one["file"] for one in json.loads(said(capture, "memory", "list", "--json"))}


def recalled(world: Path, prompt: str) -> str:
    """What the client's hook answers, run as the client runs it."""
    told = {"session_id": "s-1", "cwd": str(world / "project"), "prompt": prompt}
    environ = environment(world / "project", HOME=str(world))
    del environ["NACRE_HOME"]
    command = [sys.executable, "-m", "nacre", "hook", "UserPromptSubmit"]
    done = ended(command, world, environ, given=json.dumps(told))
    assert (done.returncode, done.stderr) == (0, "")
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


def test_what_was_remembered_before_is_there_for_both_and_what_comes_later_too(
    world: Path, capsys: Capture
) -> None:
    """M1: from nacre's memory to the client's by one command, and the two are one from then on."""
    said(
        capsys, "memory", "save", "Releases of the billing service leave on Thursdays.", "--name", "releases"
    )
    said(capsys, "memory", "save", "Likes tea.", "--name", "tea", "--scope", "user")
    shown = said(capsys, "install", "claude-code", "--dry-run")
    assert f'+  "memoryHome": "{world / ".claude"}"' in shown
    assert f"would copy 2 memories from {world / '.nacre'} to {world / '.claude'}:" in shown
    assert not (world / ".claude").exists()
    done = said(capsys, "install", "claude-code", "--yes")
    assert f"copied 2 memories from {world / '.nacre'} to {world / '.claude'}:" in done
    assert f"One memory for both, below {world / '.claude'} (memoryHome: user {world}/.nacre" in done
    assert "Thursdays" in recalled(world, "When do releases of the billing service leave?")
    (world / ".claude" / "projects" / slug(str(world / "project")) / "memory" / "learnt.md").write_text("x\n")
    assert listed(capsys) == {"project_releases.md", "learnt.md"}
    said(capsys, "memory", "save", "Later.", "--name", "later")
    assert memories(world / ".claude", world / "project") == {
        "project_releases.md",
        "learnt.md",
        "project_later.md",
    }
    assert memories(world / ".nacre", world / "project") == {"project_releases.md"}
    assert "nothing to do" in said(capsys, "install", "claude-code", "--yes")


def test_the_way_back_leaves_two_memories_and_says_how_the_new_one_comes_along(
    world: Path, capsys: Capture
) -> None:
    settings = world / ".nacre" / "settings.json"
    settings.parent.mkdir()
    before = '{"model": "embedded"}'
    settings.write_text(before)
    said(capsys, "install", "claude-code", "--yes")
    assert json.loads(settings.read_text())["memoryHome"] == str(world / ".claude")
    said(capsys, "memory", "save", "Likes tea.", "--name", "tea")
    done = said(capsys, "uninstall", "claude-code", "--yes")
    assert settings.read_text() == before
    assert "1 memory is in " in done
    command = done.rpartition("to copy: ")[2].split()
    assert command[1:] == ["memory", "import", "--home", str(world / ".claude")]
    assert listed(capsys) == set()
    assert "copied 1 memory" in said(capsys, *command[1:])
    assert listed(capsys) == {"project_tea.md"}
    assert "there is nothing" in said(capsys, *command[1:])
    assert "contain nothing of nacre" in said(capsys, "uninstall", "claude-code", "--yes")


@pytest.mark.parametrize("how", ["file", "variable"])
def test_a_place_that_the_person_chose_is_left_and_the_hooks_use_it(
    world: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """M4: whatever decides for nacre decides for the hooks; the setting is not ours to take back."""
    settings, chosen = world / ".nacre" / "settings.json", world / "notes"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"memoryHome": str(chosen)}) if how == "file" else "{}")
    if how == "variable":
        monkeypatch.setenv("NACRE_MEMORY_HOME", str(chosen))
    before = settings.read_text()
    done = said(capsys, "install", "claude-code", "--yes")
    assert f"One memory for both, below {chosen} (memoryHome: " in done
    assert settings.read_text() == before
    said(capsys, "memory", "save", "Green tea is served in the afternoon.", "--name", "tea")
    if how == "file":
        assert "Green tea" in recalled(world, "When is green tea served?")
    said(capsys, "uninstall", "claude-code", "--yes")
    assert settings.read_text() == before


def test_a_setting_without_a_record_is_left_and_told(world: Path, capsys: Capture) -> None:
    """The client may empty its cache; then nobody knows who wrote it."""
    said(capsys, "install", "claude-code", "--yes")
    (world / ".claude" / "cache").rename(world / "lost")
    settings = world / ".nacre" / "settings.json"
    done = said(capsys, "uninstall", "claude-code", "--yes")
    assert f"nacre goes on using the memory in {world / '.claude'} (memoryHome: user {settings})" in done
    assert not json.loads((world / ".claude" / "settings.json").read_text())


def test_a_setting_that_was_changed_meanwhile_is_the_persons(world: Path, capsys: Capture) -> None:
    said(capsys, "install", "claude-code", "--yes")
    settings = world / ".nacre" / "settings.json"
    theirs = json.dumps({"memoryHome": str(world / "notes")})
    settings.write_text(theirs)
    assert "goes on using" not in said(capsys, "uninstall", "claude-code", "--yes")
    assert settings.read_text() == theirs


@pytest.mark.parametrize("name", ["NACRE_HOME", "CLAUDE_CONFIG_DIR"])
def test_where_the_home_is_the_clients_already_there_is_nothing_to_share(
    world: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(world / ".claude"))
    done = said(capsys, "install", "claude-code", "--yes")
    assert f"One memory for both, below {world / '.claude'} (home: environment {name})" in done
    assert json.loads((world / ".claude" / "settings.json").read_text()).keys() == {"hooks"}
    assert not (world / ".nacre").exists()


def test_a_client_with_a_folder_of_its_own_can_share_with_the_usual_home(
    world: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its variable may be set for the client alone; then nacre has another home, which is told."""
    said(capsys, "memory", "save", "Likes tea.", "--name", "tea")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(world / "work"))
    command = f"NACRE_HOME={world / '.nacre'} nacre install claude-code"
    assert command in said(capsys, "install", "claude-code", "--yes")
    monkeypatch.setenv("NACRE_HOME", str(world / ".nacre"))
    assert "copied 1 memory" in said(capsys, "install", "claude-code", "--yes")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    monkeypatch.delenv("NACRE_HOME")
    assert json.loads(said(capsys, "memory", "path", "--json"))["path"].startswith(str(world / "work"))


def test_a_project_alone_shares_nothing_and_says_so(world: Path, capsys: Capture) -> None:
    done = said(capsys, "install", "claude-code", "--scope", "local", "--yes")
    assert "in Claude Code (home: command line), but" in done
    assert f"NACRE_HOME={world / '.claude'} " in done
    assert not (world / ".nacre").exists()


def test_a_memory_that_the_client_keeps_elsewhere_is_told(world: Path, capsys: Capture) -> None:
    """M4: its own autoMemoryDirectory is followed by the hooks, and is not nacre's to write down."""
    settings = world / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"autoMemoryDirectory": str(world / "notes")}))
    done = said(capsys, "install", "claude-code", "--yes")
    assert f"memory is {world / 'notes'} in Claude Code (autoMemoryDirectory: user {settings})" in done


def test_where_words_came_from_is_looked_up_in_the_clients_logs_too(world: Path, capsys: Capture) -> None:
    """M11: a memory that two programs share has its words with either."""
    said(capsys, "install", "claude-code", "--yes")
    folder = world / ".claude" / "projects" / slug(str(world / "project"))
    line = {
        "type": "user", "uuid": "u-1", "parentUuid": None, "sessionId": "s-1", "cwd": str(world / "project"),
        "timestamp": "2026-11-15T13:41:00.899Z", "message": {"role": "user", "content": "Tea is at four."},
    }  # fmt: skip
    (folder / "memory").mkdir(parents=True)
    (folder / "s-1.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "memory" / "tea.md").write_text("---\nname: tea\nsource: [s-1, u-1]\n---\n\nTea is at four.\n")
    assert "user said: Tea is at four." in said(capsys, "memory", "why", "tea")


def test_what_is_erased_for_good_is_looked_for_in_both_homes(world: Path, capsys: Capture) -> None:
    """M14b: sessions in one, memory in the other, and the copy that was left behind is named."""
    said(capsys, "memory", "save", "The mascot is rutabaga.", "--name", "mascot")
    said(capsys, "install", "claude-code", "--yes")
    derived = [world / home / "cache" / "seen.txt" for home in (".nacre", ".claude")]
    for path in derived:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("The mascot is rutabaga.")
    capsys.readouterr()
    assert main(["memory", "forget", "mascot", "--purge", "--yes"]) == 1
    left = capsys.readouterr().err
    assert [path.exists() for path in derived] == [False, False]
    assert memories(world / ".claude", world / "project") == set()
    assert memories(world / ".nacre", world / "project") == {"project_mascot.md"}
    assert f"NACRE_MEMORY_HOME={world / '.nacre'} nacre memory forget project_mascot.md --purge" in left


def test_a_purge_leaves_memories_and_the_clients_own_files(world: Path, capsys: Capture) -> None:
    said(capsys, "install", "claude-code", "--yes")
    said(capsys, "memory", "save", "Releases leave on Thursdays.", "--name", "releases")
    said(capsys, "memory", "save", "Likes tea.", "--name", "tea", "--scope", "user")
    recalled(world, "When do releases leave?")
    client = world / ".claude"
    project = client / "projects" / slug(str(world / "project"))
    theirs = [
        client / "cache" / "changelog.md",
        project / "s-1.jsonl",
        client / "cache" / "plugins" / "lock.json",
    ]
    for one in theirs:
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_text("theirs")
    words = project / "s-1" / "nacre-words-and-deeds.md"
    words.parent.mkdir()
    words.write_text("words")
    before = {one for one in client.rglob("*") if one.is_file()}
    shown = said(capsys, "uninstall", "claude-code", "--purge", "--dry-run")
    assert f"would delete {words}" in shown
    assert {one for one in client.rglob("*") if one.is_file()} == before
    said(capsys, "uninstall", "claude-code", "--purge", "--yes")
    left = {one for one in client.rglob("*") if one.is_file() and "memory" not in one.parts}
    assert left == set(theirs)
    assert memories(client, world / "project") == {"project_releases.md"}
    assert not words.parent.exists()
    assert "no other files" in said(capsys, "uninstall", "claude-code", "--purge", "--yes")


def test_a_purge_of_a_folder_that_nacre_goes_on_using_is_refused(
    world: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(capsys, "install", "claude-code", "--yes")
    settings = world / ".nacre" / "settings.json"
    settings.unlink()
    settings.write_text(json.dumps({"memoryHome": str(world / ".claude"), "model": "embedded"}))
    for name in (world / ".nacre" / "cache", world / ".claude" / "cache" / "install"):
        for one in name.glob("*") if name.exists() else ():
            one.unlink()
    assert main(["uninstall", "claude-code", "--purge", "--yes"]) == 3
    assert "would delete its history" in capsys.readouterr().err
    monkeypatch.setenv("NACRE_HOME", str(world / ".claude"))
    assert main(["uninstall", "claude-code", "--purge", "--yes"]) == 3
    assert "would delete what it uses" in capsys.readouterr().err
