"""A team's remote that means harm, or fails: refused by name, nothing written elsewhere, nothing lost."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from nacre.errors import ConfigError, StoreError
from nacre.memory.team.choice import remote_of
from nacre.memory.team.folder import FolderRemote
from nacre.memory.team.git import GitRemote
from nacre.memory.team.remote import KNOWN_FILE
from nacre.memory.team.sync import sync
from nacre.testing import FrozenClock
from nacre.tools.git import run_git
from tests.memory.clones import BRANCH, Clone, bare_repository, clone, git

SECRET = "AKIA" + "QYLPMN5HFIQR7BBB"


def blob(repository: Path, data: bytes) -> str:
    return git("-C", str(repository), "hash-object", "-w", "--stdin", stdin=data)


def tree(repository: Path, *rows: tuple[str, str, str]) -> str:
    """A tree as no honest git would make it: any name, any mode."""
    kinds = {"040000": "tree", "160000": "commit"}
    text = b"".join(
        f"{mode} {kinds.get(mode, 'blob')} {name}\t".encode() + os.fsencode(file) + b"\0"
        for mode, name, file in rows
    )
    return git("-C", str(repository), "mktree", "-z", "--missing", stdin=text)


def publish(repository: Path, top: str) -> None:
    commit = git("-C", str(repository), "commit-tree", top, "-m", "harm")
    git("-C", str(repository), "update-ref", f"refs/heads/{BRANCH}", commit)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    return bare_repository(tmp_path / "shared.git")


@pytest.fixture
async def ana(tmp_path: Path, shared: Path, clock: FrozenClock) -> Clone:
    return await Clone.made(tmp_path / "people", "ana", str(shared), clock)


async def test_names_that_lead_out_links_and_other_repositories_are_refused(
    tmp_path: Path, shared: Path, ana: Clone
) -> None:
    """M6, M18: each is named, the good one comes, and not a byte is written outside the team's folder."""
    evil = blob(shared, b"evil\n")
    inner = tree(shared, ("100644", evil, "evil.md"))
    publish(
        shared,
        tree(
            shared,
            ("040000", inner, ".."),
            ("040000", inner, ".git"),
            ("100644", evil, "..%2fevil.md"),
            ("100644", evil, "a\\..\\evil.md"),
            ("100644", evil, "\u2025\uff0fevil.md"),
            ("100644", evil, "new\nline.md"),
            ("100644", evil, "\udcff.md"),
            ("100644", evil, "CLAUDE.md"),
            ("100644", evil, f"{'x' * 300}.md"),
            ("120000", blob(shared, b"/etc/passwd"), "link.md"),
            ("160000", "1" * 40, "module.md"),
            ("040000", inner, "team"),
            ("100755", blob(shared, b"A good one.\n"), "good.md"),
            ("100644", evil, "README.txt"),
        ),
    )
    around = {path for path in tmp_path.rglob("*") if "home-ana/cache" not in str(path)}
    report = await ana.sync()
    assert report.pulled == ("good.md",)
    assert ana.files == {"good.md": "A good one.\n"}
    refused = {one.file for one in report.refused}
    assert refused == {
        "../evil.md", ".git/evil.md", "..%2fevil.md", "a\\..\\evil.md", "\u2025\uff0fevil.md", "new\nline.md",
        r"'\udcff.md'", "CLAUDE.md", f"{'x' * 300}.md", "link.md", "module.md", "team/evil.md",
    }  # fmt: skip
    new = {path for path in tmp_path.rglob("*") if "home-ana/cache" not in str(path)} - around
    assert {path for path in new if path.is_file() and ".git/" not in str(path)} == {
        ana.location.directory / "good.md"
    }
    await ana.save("mine.md", "Mine.")
    await ana.sync()
    assert "..%2fevil.md" in git("-C", str(shared), "ls-tree", "-r", "--name-only", BRANCH)


async def test_texts_that_are_none_or_too_large_or_hold_secrets_are_refused(shared: Path, ana: Clone) -> None:
    """M16: team memory refuses secrets always, whichever way they go."""
    publish(
        shared,
        tree(
            shared,
            ("100644", blob(shared, b"\xff\xfe"), "binary.md"),
            ("100644", blob(shared, b"a\0b"), "zero.md"),
            ("100644", blob(shared, b"x" * 1_000_001), "huge.md"),
            ("100644", blob(shared, f"key {SECRET}\n".encode()), "keys.md"),
            ("100644", blob(shared, b"Fine.\n"), "fine.md"),
            ("100644", blob(shared, b"- [Keys](keys.md) - x\n- [Fine](fine.md) - y\n"), "MEMORY.md"),
        ),
    )
    report = await ana.sync()
    assert {one.file: one.why.partition(";")[0] for one in report.refused} == {
        "binary.md": "is not UTF-8",
        "zero.md": "holds NUL, which is no text",
        "huge.md": "is 1,000,001 bytes",
        "keys.md": "holds AWS access key in line 1",
    }
    assert ana.files == {"MEMORY.md": "- [Fine](fine.md) - y\n", "fine.md": "Fine.\n"}


async def test_what_is_untrusted_comes_but_is_not_listed(shared: Path, ana: Clone) -> None:
    """M16b: the index reaches every prompt."""
    web = blob(shared, b"---\nname: W\norigin: untrusted\n---\n\nObey.\n")
    index = blob(shared, b"- [W](web.md) - x\n")
    publish(shared, tree(shared, ("100644", web, "web.md"), ("100644", index, "MEMORY.md")))
    await ana.sync()
    assert "web.md" not in ana.files.get("MEMORY.md", "")
    assert "web.md" not in git("-C", str(shared), "show", f"{BRANCH}:MEMORY.md")
    assert "Obey." in ana.files["web.md"]


async def test_names_that_differ_only_to_a_careful_reader_do_not_meet(shared: Path, ana: Clone) -> None:
    await ana.save("deploys.md", "Mine.")
    other = blob(shared, b"Other.\n")
    publish(shared, tree(shared, ("100644", other, "DEPLOYS.md"), ("100644", other, "tea.md")))
    report = await ana.sync()
    assert [one.file for one in report.refused] == ["DEPLOYS.md"]
    assert set(ana.bodies) == {"deploys.md", "tea.md"}


async def test_something_here_that_is_no_file_is_left_alone(tmp_path: Path, shared: Path, ana: Clone) -> None:
    fine = blob(shared, b"Fine.\n")
    inner = tree(shared, ("100644", fine, "x.md"))
    rows = [("100644", fine, name) for name in ("fifo.md", "folder.md", "link.md")]
    publish(shared, tree(shared, *rows, ("040000", inner, "out"), ("040000", inner, "file")))
    here, outside = ana.location.directory, tmp_path / "outside"
    outside.mkdir()
    os.mkfifo(here / "fifo.md")
    (here / "folder.md").mkdir()
    (here / "link.md").symlink_to(outside / "x.md")
    (here / "out").symlink_to(outside)
    (here / "file").write_text("a file")
    report = await ana.sync()
    assert {one.file for one in report.refused} == {
        "fifo.md",
        "folder.md",
        "link.md",
        "out/x.md",
        "file/x.md",
    }
    assert list(outside.iterdir()) == []


async def test_a_list_of_what_is_known_that_is_junk_is_put_right(shared: Path, ana: Clone) -> None:
    junk, fine = blob(shared, b"\xff{"), blob(shared, b"Fine.\n")
    publish(shared, tree(shared, ("100644", junk, KNOWN_FILE), ("100644", fine, "fine.md")))
    report = await ana.sync()
    assert (report.pulled, [one.file for one in report.refused]) == (("fine.md",), [KNOWN_FILE])
    await ana.save("mine.md", "Mine.")
    await ana.sync()
    assert (await ana.sync()).refused == ()


async def test_a_newer_form_is_left_alone(shared: Path, ana: Clone) -> None:
    """M27."""
    publish(shared, tree(shared, ("100644", blob(shared, b'{"format": 9, "known": {}}'), KNOWN_FILE)))
    await ana.save("mine.md", "Mine.")
    with pytest.raises(StoreError, match="update nacre"):
        await ana.sync()


@pytest.mark.slow
async def test_a_tree_without_end_is_not_listed_to_its_end(shared: Path, ana: Clone) -> None:
    """A few kilobytes can list a billion files."""
    level = tree(shared, *[("100644", blob(shared, b"x"), f"{n}.md") for n in range(10)])
    for _ in range(8):
        level = tree(shared, *[("040000", level, f"d{n}") for n in range(10)])
    publish(shared, level)
    with pytest.raises(StoreError, match="no team's memory"):
        await ana.sync()
    assert ana.files == {}


async def test_the_programs_that_settings_could_start_are_not_started(
    tmp_path: Path, shared: Path, ana: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks of the person's own, helpers that prompt, variables that aim git elsewhere: none has a say."""
    hooks, mark = tmp_path / "hooks", tmp_path / "started"
    hooks.mkdir()
    for name in ("pre-push", "reference-transaction", "post-checkout"):
        # In the receiving repository, hooks are its owner's business.
        (hooks / name).write_text(f"#!/bin/sh\ncase $PWD in */cache/*) touch {mark}; exit 1;; esac\n")
        (hooks / name).chmod(0o755)
    (tmp_path / "gitconfig").write_text(
        f"[core]\n\thooksPath = {hooks}\n\tfsmonitor = touch {mark}\n\taskPass = touch {mark}\n"
        "[push]\n\tgpgSign = true\n[fetch]\n\trecurseSubmodules = true\n"
        f'[protocol "ext"]\n\tallow = always\n[url "ext::touch {mark} "]\n\tinsteadOf = zzz:\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".gitconfig").write_bytes((tmp_path / "gitconfig").read_bytes())
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {mark}")
    monkeypatch.setenv("SSH_ASKPASS", f"touch {mark}")
    await ana.save("deploys.md", "We deploy on Monday.")
    assert "deploys.md" in (await ana.sync()).pushed
    with pytest.raises(StoreError, match=r"cannot be reached.*not allowed"):
        await GitRemote("zzz:x", tmp_path / "cache.git", branch=BRANCH).pull()
    assert not mark.exists()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "setting",
    [
        "-uhelp", "--upload-pack=touch x", "ext::sh -c touch% x", "EXT::x", "fd::7", "foo::bar", "::x",
        "ssh://-oProxyCommand=x/y", "no such remote!", "~/team", "folder:team", "folder:", "a\nb", "",
        "  ", None,
    ],
)  # fmt: skip
async def test_a_setting_that_names_no_place_is_one_line(ana: Clone, setting: str | None) -> None:
    with pytest.raises(ConfigError, match=r"memory\.teamRemote") as refused:
        await remote_of(setting, ana.location)
    assert "\n" not in str(refused.value)


async def test_a_remote_of_the_project_is_known_by_name(
    tmp_path: Path, shared: Path, clock: FrozenClock
) -> None:
    """Its address comes from the project's own git and passes the same checks."""
    project = clone(shared, tmp_path / "people" / "bo")
    bo = await Clone.made(tmp_path / "people", "bo", "origin", clock)
    assert (await remote_of("origin", bo.location)).address == str(shared)
    for name, address in (("near", "../../shared.git"), ("scp", "me@host:a.git"), ("web", "https://h/a.git")):
        git("-C", str(project), "remote", "add", name, address)
    assert (await remote_of("scp", bo.location)).address == "me@host:a.git"
    assert (await remote_of("web", bo.location)).address == "https://h/a.git"
    near = Clone(bo.location, "near", clock)
    await near.save("tea.md", "Green.")
    assert "tea.md" in (await near.sync()).pushed
    git("-C", str(project), "remote", "add", "evil", "ext::touch /tmp/x")
    with pytest.raises(ConfigError, match="start a program"):
        await remote_of("evil", bo.location)
    with pytest.raises(ConfigError, match="no git remote called 'gone'"):
        await remote_of("gone", bo.location)


async def test_a_place_out_of_reach_loses_nothing(tmp_path: Path, ana: Clone, clock: FrozenClock) -> None:
    await ana.save("deploys.md", "We deploy on Monday.")
    before = ana.files
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        for place in (
            str(tmp_path / "nowhere.git"), f"http://me:{SECRET}@127.0.0.1:{port}/x.git",
            f"folder:{tmp_path / 'nowhere'}", f"folder:{__file__}",
        ):  # fmt: skip
            with pytest.raises(StoreError, match=r"cannot be reached.*nothing is lost") as error:
                await Clone(ana.location, place, clock).sync()
            assert SECRET not in str(error.value)
            assert "\n" not in str(error.value)
    assert ana.files == before
    assert not (tmp_path / "nowhere").exists()
    assert "deploys.md" in (await ana.sync()).pushed


async def test_a_place_that_never_answers_is_not_waited_for_and_leaves_no_process(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"git://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(StoreError, match=r"took over 0\.5 s"):
            await GitRemote(address, tmp_path / "cache.git", branch=BRANCH, seconds=0.5).pull()
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert address not in listed


async def test_a_remote_that_takes_no_push_says_why(shared: Path, ana: Clone) -> None:
    hook = shared / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho only maintainers may push >&2\nexit 1\n")
    hook.chmod(0o755)
    await ana.save("deploys.md", "We deploy on Monday.")
    with pytest.raises(StoreError, match=r"takes no push.*only maintainers"):
        await ana.sync()
    hook.unlink()
    assert "deploys.md" in (await ana.sync()).pushed


async def test_a_broken_cache_is_made_anew(shared: Path, ana: Clone) -> None:
    """What a power cut or a kill leaves in it stops no later sync."""
    await ana.save("deploys.md", "We deploy on Monday.")
    await ana.sync()
    cache = ana.location.cache / "remote.git"
    (cache / "refs/nacre/theirs.lock").write_bytes(b"")
    (cache / "config.lock").write_bytes(b"")
    assert await ana.sync()
    for path in cache.rglob("objects/*/*"):
        path.chmod(0o600)
        path.write_bytes(b"")
    await ana.save("tea.md", "Green.")
    assert "tea.md" in (await ana.sync()).pushed
    (cache / "HEAD").unlink()
    assert (await ana.sync()).pushed == ()


async def test_who_comes_second_is_told_so(tmp_path: Path, shared: Path, clock: FrozenClock) -> None:
    """M18: compare and swap, on either kind of place."""
    (tmp_path / "folder").mkdir()
    for remote in (
        GitRemote(str(shared), tmp_path / "c.git", branch=BRANCH),
        FolderRemote(tmp_path / "folder", clock=clock),
    ):
        empty = await remote.pull()
        assert (empty.files, empty.known) == ({}, {})
        assert await remote.push(empty, {"a.md": b"one\n"}, "first")
        assert not await remote.push(empty, {"a.md": b"two\n"}, "second")
        now = await remote.pull()
        assert await remote.read(now, ["a.md", "none.md"]) == {"a.md": b"one\n"}
        assert await remote.push(now, {"a.md": None, 'b "c".md': b"three\n"}, "third")
        after = await remote.pull()
        assert (set(after.files), set(after.known)) == ({'b "c".md'}, {"a.md", 'b "c".md'})
        assert not await remote.push(now, {"a.md": b"four\n"}, "late")


async def test_a_hostile_folder_leads_nowhere(tmp_path: Path, clock: FrozenClock) -> None:
    share, outside = tmp_path / "share", tmp_path / "outside"
    share.mkdir(mode=0o770)
    share.chmod(0o770)
    outside.mkdir()
    (outside / "x.md").write_text("outside\n")
    (share / "link.md").symlink_to(outside / "x.md")
    (share / "sub").symlink_to(outside)
    os.mkfifo(share / "pipe.md")
    (share / "huge.md").write_bytes(b"x" * 1_000_001)
    (share / os.fsdecode(b"\xff.md")).write_text("x")
    (share / "fine.md").write_text("Fine.\n")
    ana = await Clone.made(tmp_path, "ana", f"folder:{share}", clock)
    await ana.save("sub/x.md", "Mine.")
    with pytest.raises(StoreError):
        await ana.sync()
    assert (outside / "x.md").read_text() == "outside\n"
    (share / "sub").unlink()
    report = await ana.sync()
    assert {one.file for one in report.refused} == {"link.md", "pipe.md", "huge.md", r"\udcff.md"}
    assert (share / "sub/x.md").stat().st_mode & 0o777 == 0o660
    assert (share / "sub").stat().st_mode & 0o777 == 0o770
    assert ana.bodies == {"fine.md": "Fine.", "sub/x.md": "Mine."}


async def test_git_that_floods_is_stopped(tmp_path: Path, shared: Path) -> None:
    big = blob(shared, b"x" * 300_000)
    with pytest.raises(StoreError, match="said more than"):
        await run_git(shared, "cat-file", "blob", big, limit=1000)


async def test_nobody_else_syncs_the_same_directory_meanwhile(ana: Clone, shared: Path) -> None:
    """Two processes of one person, at once: one after the other."""
    import asyncio

    await ana.save("deploys.md", "We deploy on Monday.")
    remote = await remote_of(str(shared), ana.location)
    reports = await asyncio.gather(*(sync(ana.location, remote) for _ in range(3)))
    assert sorted(len(one.pushed) for one in reports) == [0, 0, 2]
