"""The sandbox of Bash, with real commands that try to leave it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nacre import open_agent
from nacre.errors import ToolError
from nacre.messages.blocks import Json, ToolResult
from nacre.settings import Settings, load
from nacre.testing import ScriptedProvider
from nacre.tools import sandbox
from nacre.tools.bash import BashSettings, bash_tool
from nacre.tools.sandbox import Sandbox
from nacre.tools.workspace import Workspace
from tests.tools.test_bash import appears, gone, running_with

WORKS, WHY = sandbox.status()
needs_sandbox = pytest.mark.skipif(not WORKS, reason=f"no sandbox here: {WHY}")
SECRET = "the-private-key"


class World:
    """A project, a home with a secret, and Bash in the sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        (self.home / ".ssh").mkdir(parents=True)
        self.project.mkdir()
        self.secret = self.home / ".ssh" / "id"
        self.secret.write_text(SECRET)
        self.sandbox = Sandbox(root=self.project, homes=(self.home,))
        self.workspace = Workspace(self.project)

    async def run(self, command: str, **arguments: int) -> ToolResult:
        tool = bash_tool(self.workspace, BashSettings(sandbox=self.sandbox))
        answer = await tool.call({"command": command, **arguments})
        assert isinstance(answer, ToolResult)
        return answer


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def git(place: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(place: Path) -> None:
    git(place, "init", "--quiet")
    git(place, "config", "user.name", "Ann")
    git(place, "config", "user.email", "ann@example.org")
    (place / "a.txt").write_text("a")
    git(place, "add", ".")
    git(place, "commit", "--quiet", "-m", "one")


@needs_sandbox
async def test_a_command_writes_in_the_project_and_nowhere_else(world: World) -> None:
    for path in (world.folder / "new.txt", world.home / "new.txt", world.secret):
        await world.run(f"echo changed > {path}")
        assert not path.exists() or path.read_text() == SECRET
    for directory in ("/", "/etc", "/usr", "/usr/bin", "/var", str(Path.home())):
        assert (await world.run(f"test -w {directory}")).is_error, directory
    assert not (await world.run("echo inside > new.txt")).is_error
    assert (world.project / "new.txt").read_text() == "inside\n"


@needs_sandbox
async def test_a_write_above_the_project_fails_instead_of_being_lost() -> None:
    # Not below /tmp, which is writable in the sandbox.
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or "/var/tmp") / f"nacre-{os.getpid()}"
    folder.mkdir()
    try:
        result = await World(folder).run("echo changed > ../new.txt")
        assert result.is_error
        assert "Read-only file system" in result.text
    finally:
        shutil.rmtree(folder)


@needs_sandbox
async def test_the_home_and_everything_that_is_not_of_the_system_are_not_there(world: World) -> None:
    (world.folder / "other.txt").write_text(SECRET)
    commands = [
        f"cat {world.secret}",
        f"ls -la {world.home}",
        f"cat {world.folder}/other.txt",
        "cat ~/.ssh/id",
        f"cp {world.secret} copy; cat copy",
        f"ln {world.secret} hard; cat hard",
        f"ln -s {world.secret} soft; cat soft",
        f"tar c {world.home} | strings",
    ]
    for command in commands:
        assert SECRET not in (await world.run(command)).text
    assert SECRET in subprocess.run(["cat", world.secret], capture_output=True, text=True, check=True).stdout


@needs_sandbox
async def test_a_file_of_the_project_in_a_home_inside_a_readable_directory_is_there(world: World) -> None:
    inner = world.home / "inner"
    inner.mkdir()
    (inner / "a.txt").write_text("mine")
    world.sandbox = Sandbox(root=inner, homes=(world.home,), readable=(world.folder,))
    world.workspace.cwd = inner
    assert (await world.run("cat a.txt")).text == "mine"
    assert SECRET not in (await world.run(f"cat {world.secret}; ls ../.ssh")).text


@needs_sandbox
@pytest.mark.parametrize("network", [False, True])
async def test_only_with_the_setting_a_command_connects_to_a_listener(world: World, network: bool) -> None:
    world.sandbox = Sandbox(root=world.project, homes=(world.home,), network=network)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5 if network else 0.2)
        port = listener.getsockname()[1]
        result = await world.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
        if network:
            listener.accept()[0].close()
            assert result.text == "connected"
        else:
            with pytest.raises(TimeoutError):
                listener.accept()
            assert result.is_error


@needs_sandbox
async def test_a_socket_in_the_file_system_outside_is_not_reached(world: World) -> None:
    path = world.folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if python is None:
            pytest.skip("there is no python3 in /usr")
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        result = await world.run(shlex.join([python, "-c", code]))
        assert "FileNotFoundError" in result.text
        assert subprocess.run([python, "-c", code], check=False).returncode == 0


@needs_sandbox
async def test_a_process_outside_is_neither_seen_nor_killed(world: World) -> None:
    with subprocess.Popen(["sleep", "60"]) as outside:
        try:
            result = await world.run(f"kill -9 {outside.pid}; ls /proc")
            assert outside.poll() is None
            assert str(outside.pid) not in result.text.split("\n")
        finally:
            outside.kill()


@needs_sandbox
async def test_no_entry_of_proc_leads_out(world: World) -> None:
    entries = "/proc/[0-9]*/root /proc/[0-9]*/cwd /proc/[0-9]*/fd/* /proc/self/task/*/root"
    result = await world.run(f"for one in {entries}; do cat $one{world.secret} $one/../.ssh/id; done 2>&1")
    assert SECRET not in result.text


SWAP = """
import os, sys
while True:
    for target in ("plain.txt", sys.argv[1]):
        os.symlink(target, "spare")
        os.replace("spare", "link")
"""
READ_OFTEN = (
    "declare -A seen; for ((i = 0; i < 10000; i++)); do text=; read -r text < link; seen[x$text]=1; done;"
    " echo ${!seen[@]}"
)


@needs_sandbox
async def test_a_link_that_is_swapped_between_check_and_command_leads_nowhere(world: World) -> None:
    """The guard judged `link` when it was a file of the project; another process swaps it meanwhile."""
    (world.project / "plain.txt").write_text("plain\n")
    world.secret.write_text(f"{SECRET}\n")
    with subprocess.Popen([sys.executable, "-c", SWAP, str(world.secret)], cwd=world.project) as swapping:
        try:
            await asyncio.wait_for(appears(world.project / "link"), 30)
            swapped = (await world.run(f"{{ {READ_OFTEN}; }} 2>/dev/null")).text
        finally:
            swapping.kill()
    assert SECRET not in swapped
    # Without the sandbox, a link that was swapped in time is read.
    link = world.project / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(world.secret)
    assert SECRET not in (await world.run("cat link")).text
    control = await bash_tool(Workspace(world.project)).call({"command": "cat link"})
    assert isinstance(control, ToolResult)
    assert control.text == SECRET


@needs_sandbox
async def test_what_decides_what_runs_later_is_read_only(world: World) -> None:
    repository(world.project)
    (world.project / ".claude").mkdir()
    (world.project / ".claude" / "settings.json").write_text("{}")
    before = (world.project / ".git" / "config").read_bytes()
    hooks = sorted((world.project / ".git" / "hooks").iterdir())
    attempts = [
        "git config core.fsmonitor ./evil",
        "echo '[core]' >> .git/config",
        "rm .git/config",
        "mv .git/config .git/other",
        "touch .git/hooks/post-checkout",
        "rm -r .git/hooks",
        "mv .git away && mkdir .git",
        "ln -sfn /tmp .git/hooks && test -L .git/hooks",
        "mkdir -p .nacre && echo '{}' > .nacre/settings.json",
        "rmdir .nacre",
        "mv .nacre away",
        "echo changed > .claude/settings.json",
        "rm -r .claude",
        "mv .claude away",
    ]
    for attempt in attempts:
        assert (await world.run(attempt)).is_error, attempt
    assert (world.project / ".git" / "config").read_bytes() == before
    assert sorted((world.project / ".git" / "hooks").iterdir()) == hooks
    assert list((world.project / ".nacre").iterdir()) == []
    assert (world.project / ".claude" / "settings.json").read_text() == "{}"


@needs_sandbox
async def test_settings_of_one_worktree_are_not_created(world: World) -> None:
    repository(world.project)
    git(world.project, "config", "extensions.worktreeConfig", "true")
    assert (await world.run("git config --worktree core.fsmonitor ./evil")).is_error
    assert (await world.run("echo '[core]' > .git/config.worktree")).is_error
    assert (world.project / ".git" / "config.worktree").read_text() == ""


@needs_sandbox
async def test_a_commit_works_and_has_the_users_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(world.project)
    git(world.project, "config", "--unset", "user.name")
    (world.home / ".gitconfig").write_text("[user]\nname = Ben\n")
    monkeypatch.setenv("HOME", str(world.home))
    result = await world.run("echo b > b.txt && git add b.txt && git commit -q -m two && git status --short")
    assert (result.text, result.is_error) == ("(no output)", False)
    assert git(world.project, "log", "-1", "--format=%an %ae %s") == "Ben ann@example.org two"


@needs_sandbox
async def test_a_commit_in_a_linked_worktree_leaves_the_main_checkout_alone(world: World) -> None:
    main = world.folder / "main"
    main.mkdir()
    repository(main)
    world.project.rmdir()
    git(main, "worktree", "add", "--quiet", "-b", "side", str(world.project))
    result = await world.run("echo b > b.txt && git add b.txt && git commit -q -m two && git log --oneline")
    assert not result.is_error, result.text
    assert git(main, "log", "-1", "--format=%s", "side") == "two"
    attempts = ["hooks/pre-commit", "config", "HEAD", "index"]
    for name in attempts:
        assert (await world.run(f"echo changed >> {main}/.git/{name}")).is_error, name
    assert (await world.run("echo 'gitdir: /tmp' > .git")).is_error
    assert (await world.run(f"cat {main}/a.txt")).is_error
    assert git(main, "status", "--short") == ""


@needs_sandbox
async def test_a_commit_works_in_a_submodule(world: World) -> None:
    inner = world.folder / "inner"
    inner.mkdir()
    repository(inner)
    repository(world.project)
    git(world.project, "submodule", "--quiet", "add", str(inner), "sub")
    git(world.project / "sub", "config", "user.email", "ann@example.org")
    git(world.project / "sub", "config", "user.name", "Ann")
    world.sandbox = Sandbox(root=world.project / "sub", homes=(world.home,))
    world.workspace.cwd = world.project / "sub"
    result = await world.run("echo b > b.txt && git add . && git commit -q -m two && git log -1 --format=%s")
    assert result.text == "two"
    await world.run(f"echo changed > {world.project}/a.txt")
    assert (world.project / "a.txt").read_text() == "a"


@needs_sandbox
async def test_git_sees_the_whole_repository_around_a_project(world: World) -> None:
    repository(world.project)
    part = world.project / "part"
    part.mkdir()
    world.sandbox = Sandbox(root=part, homes=(world.home,))
    world.workspace.cwd = part
    result = await world.run("touch b.txt && git add -A && git commit -q -m two && git show --stat --format=")
    assert "b.txt" in result.text
    assert "a.txt" not in result.text
    assert (await world.run("echo changed > ../a.txt")).is_error
    assert (await world.run("touch ../.git/hooks/pre-commit")).is_error


@needs_sandbox
async def test_a_git_file_of_the_repository_opens_no_other_directory(world: World) -> None:
    other = world.folder / "other"
    other.mkdir()
    repository(other)
    (world.project / ".git").write_text(f"gitdir: {other}/.git\n")
    result = await world.run(f"git log; cat {other}/.git/config; touch {other}/.git/x")
    assert "ann@example.org" not in result.text
    assert not (other / ".git" / "x").exists()


@needs_sandbox
async def test_keys_are_in_no_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD"]
    names += ["SSH_AUTH_SOCK", "npm_config__auth", "GIT_CONFIG_VALUE_0", "CI_JOB_TOKEN"]
    for name in names:
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("DATABASE_URL", f"postgres://ann:{SECRET}@db/x")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ann")
    monkeypatch.setenv("HARMLESS", "shown")
    result = await world.run("printenv; cat /proc/*/environ | tr '\\0' '\\n'")
    assert "HARMLESS=shown" in result.text
    assert "GIT_AUTHOR_NAME=Ann" in result.text
    assert SECRET not in result.text


@needs_sandbox
async def test_the_working_directory_carries_over_if_the_next_command_sees_it(world: World) -> None:
    await world.run("mkdir 'a b' && cd 'a b'")
    assert (await world.run("pwd")).text == f"{world.project}/a b"
    await world.run("cd /usr/bin; exit 3")
    assert (await world.run("pwd")).text == "/usr/bin"
    result = await world.run("mkdir /tmp/x && cd /tmp/x")
    assert result.text.startswith("[/tmp/x exists for one command only; the next one starts in /usr/bin.]")
    assert (await world.run("ls /tmp; pwd")).text.endswith("/usr/bin")


@needs_sandbox
async def test_processes_in_the_background_end_with_the_command(world: World) -> None:
    mark = f"nacre-mark-{os.getpid()}-background"
    result = await world.run(f"export MARK={mark}; exec >up 2>&1; setsid sleep 300 & nohup sleep 300 &")
    assert not result.is_error
    assert await gone(mark)


@needs_sandbox
async def test_a_timeout_ends_everything(world: World) -> None:
    mark = f"nacre-mark-{os.getpid()}-timeout"
    result = await world.run(
        f"trap '' TERM; MARK={mark} setsid sleep 300 & MARK={mark} sleep 300", timeout=500
    )
    assert "Stopped after 0.5 s" in result.text
    assert await gone(mark)


KILLED = """
import asyncio, sys
from pathlib import Path
from nacre.tools.bash import BashSettings, bash_tool
from nacre.tools.sandbox import Sandbox
from nacre.tools.workspace import Workspace
root = Path(sys.argv[1])
tool = bash_tool(Workspace(root), BashSettings(sandbox=Sandbox(root=root)))
asyncio.run(tool.call({"command": f"touch up; MARK={sys.argv[2]} setsid sleep 300"}))
"""


@needs_sandbox
async def test_commands_end_with_a_killed_session(world: World) -> None:
    mark = f"nacre-mark-{os.getpid()}-killed"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(world.project), mark]) as session:
        await asyncio.wait_for(appears(world.project / "up"), 30)
        session.send_signal(signal.SIGKILL)
    # The argument of the session itself is the mark, too.
    assert await gone(mark)
    assert running_with(mark) == []


@needs_sandbox
async def test_a_command_has_a_session_of_its_own_and_no_capabilities(world: World) -> None:
    fields = (await world.run("cut -d' ' -f6 /proc/$$/stat; grep Cap /proc/self/status")).text.split("\n")
    assert int(fields[0]) > 0  # it would be 0 for a session outside the namespace
    assert {line.split()[1] for line in fields[1:]} == {"0" * 16}


@needs_sandbox
async def test_named_directories_are_readable_or_writable(world: World) -> None:
    (tools := world.home / "tools").mkdir()
    (tools / "a.txt").write_text("tool")
    (data := world.folder / "data").mkdir()
    missing = world.folder / "missing"
    inside = world.project / "inside"
    inside.symlink_to(world.home)  # a command made it after the person had named the directory
    world.sandbox = Sandbox(
        root=world.project, homes=(world.home,), readable=(tools, inside), writable=(data, missing, inside)
    )
    assert (await world.run(f"cat {tools}/a.txt")).text == "tool"
    assert (await world.run(f"touch {tools}/b.txt")).is_error
    assert not (await world.run(f"touch {data}/b.txt")).is_error
    assert (data / "b.txt").exists()
    assert SECRET not in (await world.run(f"cat inside/.ssh/id {world.secret}")).text


@needs_sandbox
@pytest.mark.parametrize("place", ["root", "writable", "readable"])
async def test_a_home_that_would_not_be_hidden_is_a_refusal(world: World, place: str) -> None:
    if place == "root":
        world.sandbox = Sandbox(root=world.folder, homes=(world.home,))
    elif place == "writable":
        world.sandbox = Sandbox(root=world.project, homes=(world.home,), writable=(world.home,))
    else:
        world.sandbox = Sandbox(root=world.project, homes=(world.home,), readable=(world.home,))
    with pytest.raises(ToolError, match=r"Bash is refused.*is to be hidden"):
        await world.run("touch ran")
    assert not (world.project / "ran").exists()


@needs_sandbox
@pytest.mark.parametrize("name", [".claude", ".nacre", ".git", ".git/hooks", ".git/config"])
async def test_a_link_in_place_of_what_is_protected_is_a_refusal(world: World, name: str) -> None:
    repository(world.project)
    path = world.project / name
    if path.exists():
        path.rename(world.folder / "moved")
    path.symlink_to(world.folder / "moved")
    with pytest.raises(ToolError, match="is a link"):
        await world.run("touch ran")
    assert not (world.project / "ran").exists()


def test_every_home_of_the_user_is_hidden(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(world.home))
    other = world.folder / "other"
    found = sandbox.homes(world.folder / "nacre", {"HOME": str(other)})
    assert set(found) >= {world.folder / "nacre", other, world.home}
    # The account of a service can have `/` as its home; then no project could be written.
    assert Path("/") not in sandbox.homes(world.folder / "nacre", {"HOME": "/"})


@pytest.fixture
def fresh_probe() -> Iterator[None]:
    sandbox.probed_base.cache_clear()
    yield
    sandbox.probed_base.cache_clear()


def program(folder: Path, text: str) -> None:
    (folder / "bin").mkdir()
    path = folder / "bin" / "bwrap"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.mark.usefixtures("fresh_probe")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "there is no bwrap on PATH; install the package bubblewrap"),
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "setting up uid map: Permission"),
    ],
)
async def test_without_a_sandbox_that_works_no_command_runs(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    if sys.platform != "linux":
        pytest.skip("bubblewrap is for Linux")
    program(world.folder, text)
    if not text:
        (world.folder / "bin" / "bwrap").unlink()
    (world.folder / "bin" / "bash").symlink_to(shutil.which("bash") or "")
    monkeypatch.setenv("PATH", str(world.folder / "bin"))
    assert sandbox.status()[0] is False
    with pytest.raises(ToolError) as refused:
        await world.run("touch ran")
    assert "Bash is refused because the sandbox is on and does not work" in str(refused.value)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (world.project / "ran").exists()


@pytest.mark.usefixtures("fresh_probe")
async def test_a_program_that_hangs_is_tried_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("bubblewrap is for Linux")
    program(world.folder, f"echo tried >> {world.folder}/tries; exec sleep 60")
    monkeypatch.setenv("PATH", f"{world.folder / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(sandbox, "PROBE_SECONDS", 0.5)
    for _ in range(3):
        with pytest.raises(ToolError, match=r"did not end within 0\.5 s"):
            await world.run("touch ran")
    assert (world.folder / "tries").read_text() == "tried\n"
    assert not (world.project / "ran").exists()


@needs_sandbox
@pytest.mark.usefixtures("fresh_probe")
async def test_where_proc_cannot_be_mounted_there_is_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("bwrap")
    refuse = 'echo "bwrap: Can\'t mount proc on /newroot/proc: Operation not permitted" >&2; exit 1'
    program(world.folder, f'[[ " $* " = *" --proc "* ]] && {{ {refuse}; }}\nexec {real} "$@"')
    monkeypatch.setenv("PATH", f"{world.folder / 'bin'}:{os.environ['PATH']}")
    assert sandbox.status() == (True, "bubblewrap works, without /proc")
    result = await world.run("ls /proc/self; echo done")
    assert "No such file" in result.text
    assert result.text.endswith("done")


def test_a_profile_for_macos_denies_before_it_allows(world: World) -> None:
    """Only its text: it has not been tried on a Mac."""
    places = {world.project: "write", world.project / ".git" / "config": "read", world.home: "hidden"}
    profile = sandbox._profile(places, network=False)
    written = profile.index(f'(allow file-read* file-write* (subpath "{world.project}"))')
    guarded = profile.index(f'(deny file-write* (subpath "{world.project}/.git/config"))')
    assert profile.index("(deny file-read* file-write*)") < written < guarded
    assert f'(deny file-read* file-write* (subpath "{world.home}"))' in profile
    assert profile.endswith("(deny network*)")
    assert "network" not in sandbox._profile(places, network=True)


def session_settings(world: World, **cli: Json) -> Settings:
    environ = {"NACRE_HOME": str(world.home / "nacre"), "HOME": str(world.home)}
    return load(world.project, environ, cli={"sandbox.enabled": True, **cli})


@needs_sandbox
async def test_a_session_with_the_setting_has_both_the_rules_and_the_sandbox(world: World) -> None:
    async with open_agent(session_settings(world), provider=ScriptedProvider(), ephemeral=True) as opened:
        bash = opened.agent.tools["Bash"]
        assert "Commands run in a sandbox." in bash.description
        with pytest.raises(ToolError, match="permission"):
            await bash.call({"command": "touch ran"})
    assert not (world.project / "ran").exists()
    settings = session_settings(world, **{"permissions.defaultMode": "bypassPermissions"})
    async with open_agent(settings, provider=ScriptedProvider(), ephemeral=True) as opened:
        result = await opened.agent.tools["Bash"].call({"command": f"cat {world.secret}; touch ran"})
    assert isinstance(result, ToolResult)
    assert SECRET not in result.text
    assert (world.project / "ran").exists()


@needs_sandbox
async def test_a_session_says_at_its_start_which_directories_are_missing_or_not_hidden(world: World) -> None:
    given = session_settings(world, **{"sandbox.readable": [f"{world.folder}/absent"]})
    async with open_agent(given, provider=ScriptedProvider(), ephemeral=True) as opened:
        missing = f"does not exist for the sandbox: sandbox.readable {world.folder}/absent"
        assert [notice for notice in opened.notices if missing in notice]
    given = session_settings(world, **{"sandbox.writable": ["/"]})
    async with open_agent(given, provider=ScriptedProvider(), ephemeral=True) as opened:
        assert any("Bash is refused" in one and "is to be hidden" in one for one in opened.notices)


@pytest.mark.usefixtures("fresh_probe")
async def test_a_session_without_a_sandbox_that_works_says_so_at_its_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("bubblewrap is for Linux")
    program(world.folder, "exit 1")
    monkeypatch.setenv("PATH", f"{world.folder / 'bin'}:{os.environ['PATH']}")
    settings = session_settings(world, **{"permissions.defaultMode": "bypassPermissions"})
    async with open_agent(settings, provider=ScriptedProvider(), ephemeral=True) as opened:
        assert any("Bash is refused" in notice for notice in opened.notices)
        with pytest.raises(ToolError, match="Bash is refused"):
            await opened.agent.tools["Bash"].call({"command": "touch ran"})
    assert not (world.project / "ran").exists()
