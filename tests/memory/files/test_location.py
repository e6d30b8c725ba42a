"""Where memory lives, who decides, and what is refused (M1-M5, M7b, M18, M26)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ConfigError, StoreError
from nacre.memory.files.location import (
    Bounds,
    Location,
    MemoryPaths,
    agent_location,
    claim,
    configured,
    locate,
    memory_base,
    prepare,
    team_location,
    user_location,
)
from nacre.store.home import slug


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def paths(base: Path, project: str = "project", **more: Any) -> MemoryPaths:
    """A home, an account and a working directory, all below one folder."""
    cwd = base / project
    cwd.mkdir(parents=True, exist_ok=True)
    return MemoryPaths(**({"home": base / "me/.nacre", "cwd": cwd, "user_home": base / "me"} | more))


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_by_default_memory_lies_in_the_projects_folder_of_the_home(base: Path) -> None:
    """M2, M15: history and cache lie outside the memory folder, under the same name."""
    home = base / "me/.nacre"
    folder = slug(str(base / "My_Repo"))
    assert folder.endswith("-My-Repo")
    assert locate(paths(base, "My_Repo")) == Location(
        directory=home / "projects" / folder / "memory",
        source="default",
        history=home / f"history/{folder}.git",
        cache=home / "cache" / folder,
        root=base / "My_Repo",
    )


def test_looking_makes_nothing(base: Path) -> None:
    """M2: folders and identity appear with the first write."""
    location = locate(paths(base))
    team_location(location), user_location(base / "me/.nacre")
    assert not (base / "me").exists()


def test_every_folder_and_worktree_of_a_repository_has_the_same_memory(base: Path) -> None:
    """M3."""
    repo = base / "repo"
    (repo / "src").mkdir(parents=True)
    for words in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", "../w"],
    ):
        names = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *names, *words], cwd=repo, check=True, capture_output=True)
    (base / "link").symlink_to(repo)
    places = {locate(paths(base, each)) for each in ("repo", "repo/src", "w", "link")}
    assert [place.root for place in places] == [repo]


def test_the_first_source_that_is_set_decides(base: Path) -> None:
    """M4: override, setting, remote base, a home for memory, default."""
    named = {
        "path_override": str(base / "host/memory"),
        "directory_setting": "~/notes/memory",
        "remote_directory": str(base / "mnt/lasting"),
        "home_setting": "~/.claude",
    }
    found = []
    for gone in range(5):
        location = locate(paths(base, **dict(list(named.items())[gone:])))
        found.append((location.source, location.directory))
    folder = slug(str(base / "project"))
    assert found == [
        ("override", base / "host/memory"),
        ("setting", base / "me/notes/memory"),
        ("remote", base / "mnt/lasting/projects" / folder / "memory"),
        ("memoryHome", base / "me/.claude/projects" / folder / "memory"),
        ("default", base / "me/.nacre/projects" / folder / "memory"),
    ]


def test_an_empty_variable_is_not_set(base: Path) -> None:
    """M4."""
    empty = paths(base, path_override="", directory_setting="", remote_directory="", home_setting="")
    assert locate(empty) == locate(paths(base))


def test_everything_of_a_remote_memory_lies_on_the_lasting_disk(base: Path) -> None:
    """M4: the history would be lost with the machine otherwise."""
    remote = paths(base, remote_directory=str(base / "mnt/lasting"))
    location = locate(remote)
    assert memory_base(remote) == base / "mnt/lasting"
    assert all(
        each.is_relative_to(base / "mnt/lasting")
        for each in (location.directory, location.history, location.cache)
    )


def test_two_programs_with_one_home_for_memory_meet_in_all_of_it(base: Path) -> None:
    """M1, M2, M15: whose memory it is, its history and its locks are found by both at the same place."""
    theirs = base / "me/.claude"
    for more in ({}, {"directory_setting": "~/notes/memory"}):
        ours = locate(paths(base, home_setting="~/.claude", **more))
        other = locate(paths(base, home=theirs, **more))
        both = [
            (one.directory, one.history, one.cache, one.identity_file, one.owner) for one in (ours, other)
        ]
        assert both[0] == both[1]
    shared = paths(base, home_setting="~/.claude")
    assert memory_base(shared) == theirs
    assert agent_location("user", "reviewer", shared).directory == theirs / "agent-memory/reviewer"


def test_projects_that_share_a_directory_share_its_history_and_locks(base: Path) -> None:
    """M4, M15: two histories of one folder would each miss half of it."""
    one = locate(paths(base, "one", directory_setting="~/notes/memory"))
    other = locate(paths(base, "other", path_override=str(base / "me/notes/memory")))
    assert (one.history, one.cache) == (other.history, other.cache)
    assert one.history.parent == base / "me/.nacre/history"
    assert one.history != locate(paths(base, "me/notes/memory")).history


REFUSED = [
    ("", "not a full path"), ("memory", "not a full path"), ("./memory", "not a full path"),
    ("../memory", "not a full path"), ("~someone/memory", "not a full path"),
    ("C:\\memory", "not a full path"),
    ("/", "root of the disk"), ("/etc", "root of the disk"), ("/etc/", "root of the disk"),
    ("/a/b/../../etc", "root of the disk"), ("/.", "root of the disk"), ("/../../etc", "root of the disk"),
    ("C:\\", "whole drive"), ("C:/", "whole drive"), ("c:", "whole drive"),
    ("\\\\host\\share\\memory", "network path"), ("//host/share/memory", "network path"),
    ("/a/b\0c", "NUL"),
    ("~", "whole home"), ("~/", "whole home"), ("~/.", "whole home"), ("~/..", "whole home"),
    ("~/./", "whole home"), ("~/x/..", "whole home"), ("~//", "whole home"), ("~/x/../..", "whole home"),
    ("{me}", "whole home"), ("{me}/", "whole home"), ("{base}", "whole home"),
    ("{me}/x/../../", "whole home"),
    ("{link_to_me}", "whole home"), ("{link_to_etc}", "root of the disk"),
    ("~/.nacre", "nacre's own files"), ("{base}/me/.nacre/x/..", "nacre's own files"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_configured_path_that_opens_too_much_is_refused_in_one_line(
    base: Path, text: str, reason: str
) -> None:
    """M5."""
    (base / "me").mkdir()
    (base / "links").mkdir()
    (base / "links/me").symlink_to(base / "me")
    (base / "links/etc").symlink_to("/etc")
    text = text.format(
        base=base, me=base / "me", link_to_me=base / "links/me", link_to_etc=base / "links/etc"
    )
    bounds = Bounds(user_home=base / "me", home=base / "me/.nacre")
    with pytest.raises(ConfigError) as refusal:
        configured(text, "autoMemoryDirectory in user settings", bounds=bounds, tilde=True)
    message = str(refusal.value)
    assert message.startswith("autoMemoryDirectory in user settings is ")
    assert reason in message
    assert "\n" not in message


def test_each_source_is_validated_and_named_in_the_error(base: Path) -> None:
    """M5: a tilde is only expanded in settings; the variables are full paths."""
    for name, more in (
        ("NACRE_MEMORY_PATH_OVERRIDE", {"path_override": "~/memory"}),
        ("NACRE_REMOTE_MEMORY_DIR", {"remote_directory": "~/memory"}),
        ("autoMemoryDirectory in policy", {"directory_setting": "/etc", "directory_origin": "policy"}),
        ("memoryHome in policy", {"home_setting": "~/.", "home_origin": "policy"}),
        ("memoryHome in policy", {"home_setting": "memory", "home_origin": "policy"}),
        ("memoryHome in policy", {"home_setting": "//host/memory", "home_origin": "policy"}),
    ):
        with pytest.raises(ConfigError, match=name):
            locate(paths(base, **more))


def test_good_paths_are_made_real(base: Path) -> None:
    """M5: what is configured may lie behind a link, as long as it is not too wide."""
    (base / "disk/notes").mkdir(parents=True)
    (base / "me").mkdir()
    (base / "me/notes").symlink_to(base / "disk/notes")
    assert (
        locate(paths(base, directory_setting="~/notes/a/../memory/")).directory == base / "disk/notes/memory"
    )
    assert locate(paths(base, remote_directory=str(base / "me/.nacre"))).directory == (
        locate(paths(base)).directory
    )


@given(
    parts=st.lists(st.sampled_from(["a", "b", "..", ".", "", "me", "~"]), max_size=7),
    lead=st.sampled_from("/~."),
)
def test_no_configured_path_ever_holds_the_home(parts: list[str], lead: str) -> None:
    """M5: whatever is accepted is at least two levels deep and holds neither of the two homes."""
    bounds = Bounds(user_home=Path("/a/b/me"), home=Path("/a/b/me/.nacre"))
    text = "/".join([lead.strip("/"), *parts])
    try:
        found = configured(text, "x", bounds=bounds, tilde=True)
    except ConfigError:
        return
    assert len(found.parts) >= 3
    assert not bounds.user_home.is_relative_to(found)
    assert not bounds.home.is_relative_to(found)
    assert str(found) == os.path.normpath(found)


def test_two_projects_with_one_slug_get_a_folder_each(base: Path) -> None:
    """M2: `a_b` and `a-b`; whoever writes first has the plain name, and both find theirs again."""
    first, second = paths(base, "a_b"), paths(base, "a-b")
    assert slug(str(first.cwd)) == slug(str(second.cwd))
    mine = locate(first)
    claim(mine, first.cwd)
    theirs = locate(second)
    assert theirs.directory.parent.parent == mine.directory.parent.parent
    assert theirs.directory.parent.name.startswith(f"{mine.directory.parent.name}-")
    assert {mine.history, mine.cache}.isdisjoint({theirs.history, theirs.cache})
    claim(theirs, second.cwd)
    assert [locate(first), locate(second)] == [mine, theirs]


def test_a_project_keeps_its_own_folder_when_the_plain_name_becomes_free(base: Path) -> None:
    """M2: its memory does not move because another's was deleted."""
    first, second = paths(base, "a_b"), paths(base, "a-b")
    claim(locate(first), first.cwd)
    theirs = locate(second)
    claim(theirs, second.cwd)
    locate(first).identity_file.unlink()
    assert locate(second) == theirs


def test_a_taken_second_name_gives_way_to_a_longer_one(base: Path) -> None:
    """M2: a third root can have the very slug that the second one's hash makes."""
    first, second = paths(base, "a_b"), paths(base, "a-b")
    claim(locate(first), first.cwd)
    shorter = locate(second)
    shorter.identity_file.parent.mkdir(parents=True)
    shorter.identity_file.write_text(json.dumps({"format": 1, "root": "/somebody/else"}))
    longer = locate(second)
    assert longer.directory.parent.name.startswith(shorter.directory.parent.name)
    assert longer != shorter


def test_who_comes_second_in_a_race_is_told_and_finds_another_folder(base: Path) -> None:
    """M2: both looked before either wrote."""
    first, second = paths(base, "a_b"), paths(base, "a-b")
    mine, raced = locate(first), locate(second)
    assert raced.directory == mine.directory
    claim(mine, first.cwd)
    with pytest.raises(StoreError, match="start again"):
        claim(raced, second.cwd)
    assert "start again" in str(prepare(raced))
    claim(locate(second), second.cwd)


def test_a_folder_that_another_program_made_is_adopted_on_the_first_write(base: Path) -> None:
    """M1, M2: another harness's home works as it is."""
    there = paths(base, home=base / "me/.claude")
    folder = base / "me/.claude/projects" / slug(str(there.cwd))
    (folder / "memory").mkdir(parents=True)
    (folder / "memory/MEMORY.md").write_text("- [A](a.md) — hook\n")
    location = locate(there)
    assert location.directory == folder / "memory"
    assert prepare(location) is None
    assert names(folder) == ["memory"]
    claim(location, there.cwd)
    assert locate(there) == location
    assert names(folder) == ["identity.json", "memory"]


def test_a_long_path_is_found_under_another_runtimes_hash(base: Path) -> None:
    """M2: the same 200 and any hash, if the folder is really of this project."""
    deep = paths(base, "/".join(["long_name"] * 25))
    plain = slug(str(deep.cwd))
    projects = base / "me/.nacre/projects"
    other = projects / f"{plain[:200]}-wyhash1"
    (other / "memory").mkdir(parents=True)
    (other / "s.jsonl").write_text(json.dumps({"type": "user", "cwd": f"{deep.cwd}_2"}))
    assert locate(deep).directory == projects / plain / "memory"  # a neighbour's, which begins alike
    (other / "t.jsonl").write_text(json.dumps({"type": "user", "cwd": f"{deep.cwd}/sub"}))
    assert locate(deep).directory == other / "memory"
    claim(locate(deep), deep.cwd)
    (other / "t.jsonl").unlink()
    assert locate(deep).directory == other / "memory"
    (projects / plain).mkdir()
    assert locate(deep).directory == projects / plain / "memory"


def test_a_long_path_whose_folder_has_another_owner_stays_apart(base: Path) -> None:
    """M2."""
    deep = paths(base, "/".join(["long_name"] * 25))
    plain = slug(str(deep.cwd))
    other = base / "me/.nacre/projects" / f"{plain[:200]}-1"
    other.mkdir(parents=True)
    (other / "t.jsonl").write_text(json.dumps({"cwd": str(deep.cwd)}))
    (other / "identity.json").write_text(json.dumps({"format": 1, "root": "/somebody/else"}))
    assert locate(deep).directory.parent.name == plain


def test_the_users_and_the_teams_memory(base: Path) -> None:
    """M7b, M18: the same form, and names for history and cache that no project can have."""
    home = base / "me/.nacre"
    project = locate(paths(base))
    name = project.cache.name
    assert user_location(home) == Location(
        directory=home / "memory", source="user", history=home / "history/user.git", cache=home / "cache/user"
    )
    assert team_location(project) == Location(
        directory=project.directory / "team",
        source="team",
        history=home / f"history/{name}.team.git",
        cache=home / f"cache/{name}.team",
        root=project.root,
    )
    assert locate(paths(base, "project/team")).history != team_location(project).history


def test_an_agents_memory_goes_by_its_scope(base: Path) -> None:
    """M26: `local` belongs to the repository, `project` to the checkout in use."""
    repo = base / "repo"
    repo.mkdir()
    for words in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["worktree", "add", "-q", "../w"],
    ):
        names = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *names, *words], cwd=repo, check=True, capture_output=True)
    tree = paths(base, "w")
    found = {scope: agent_location(scope, "qa:reviewer", tree) for scope in ("user", "project", "local")}
    assert {scope: each.directory for scope, each in found.items()} == {
        "user": base / "me/.nacre/agent-memory/qa-reviewer",
        "project": base / "w/.claude/agent-memory/qa-reviewer",
        "local": repo / ".claude/agent-memory-local/qa-reviewer",
    }
    assert {each.source for each in found.values()} == {"agent"}
    assert len({each.history for each in found.values()}) == 3
    assert all(each.history.is_relative_to(base / "me/.nacre/history") for each in found.values())


def test_an_agents_local_memory_moves_to_the_lasting_disk(base: Path) -> None:
    """M26: under NACRE_REMOTE_MEMORY_DIR, in the project's folder."""
    remote = paths(base, remote_directory=str(base / "mnt/lasting"))
    folder = slug(str(remote.cwd))
    assert agent_location("local", "qa", remote).directory == (
        base / "mnt/lasting/projects" / folder / "agent-memory-local/qa"
    )
    assert agent_location("user", "qa", remote).directory == base / "mnt/lasting/agent-memory/qa"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a\\b", "a\0", ".hidden", "a b", "x" * 81, "／", "-x", "a\n"]
)
def test_an_agent_type_that_is_no_plain_name_has_no_memory(base: Path, name: str) -> None:
    """M26, M6."""
    with pytest.raises(ConfigError, match="cannot name an agent's memory"):
        agent_location("user", name, paths(base))


def test_an_agents_memory_that_a_repository_links_elsewhere_is_refused(base: Path) -> None:
    """M26, M6: the link may have come with the repository; one that stays inside is fine."""
    cwd = paths(base).cwd
    (base / "me/.ssh").mkdir(parents=True)
    (cwd / ".claude").mkdir()
    (cwd / ".claude/agent-memory").symlink_to(base / "me/.ssh")
    with pytest.raises(ConfigError, match="remove the link"):
        agent_location("project", "qa", paths(base))
    (cwd / ".claude/agent-memory-local").symlink_to(cwd / "kept")
    assert agent_location("local", "qa", paths(base)).directory == cwd / "kept/qa"


def test_the_directory_is_made_for_its_owner_alone(base: Path) -> None:
    """M27, M19; a second time changes nothing."""
    location = locate(paths(base))
    assert [prepare(location), prepare(location), prepare(team_location(location))] == [None] * 3
    made = [location.directory, *location.directory.parents]
    modes = {stat.S_IMODE(each.stat().st_mode) for each in made if each.is_relative_to(base / "me")}
    assert modes == {0o700}
    assert (location.directory / "team").is_dir()


def test_a_directory_that_is_a_link_is_read_but_not_written(base: Path) -> None:
    """M6, M19: the reason says what to set; a link put there later counts as well."""
    location = locate(paths(base))
    location.directory.parent.mkdir(parents=True)
    (base / "elsewhere/x").mkdir(parents=True)
    location.directory.symlink_to(base / "elsewhere/x")
    assert locate(paths(base)) == location
    reason = prepare(location)
    assert reason is not None and "autoMemoryDirectory" in reason and str(base / "elsewhere/x") in reason
    location.directory.unlink()
    location.directory.symlink_to(base / "nowhere")
    assert "symlink" in str(prepare(location))
    assert not (base / "nowhere").exists()


def test_a_link_that_appears_while_the_directory_is_made_is_not_followed(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M6. Patched so that the link comes at the worst moment."""
    location = locate(paths(base))
    (base / "outside").mkdir()
    make = os.mkdir

    def mkdir(name: str, mode: int, *, dir_fd: int) -> None:
        if name == "projects":
            os.symlink(base / "outside", name, dir_fd=dir_fd)
        make(name, mode, dir_fd=dir_fd)

    (base / "me/.nacre").mkdir(parents=True)
    monkeypatch.setattr(os, "mkdir", mkdir)
    assert prepare(location) is not None
    assert names(base / "outside") == []


def test_a_directory_that_cannot_be_made_gives_a_reason(base: Path) -> None:
    """M19: memory is read-only then, and the manual says so."""
    location = locate(paths(base))
    (base / "me/.nacre").mkdir(parents=True)
    (base / "me/.nacre/projects").write_text("a file")
    assert "is a file, not a folder" in str(prepare(location))


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_directory_without_permission_gives_a_reason(base: Path) -> None:
    """M19."""
    location = locate(paths(base))
    assert prepare(location) is None
    location.directory.chmod(0o500)
    assert "no permission" in str(prepare(location))
