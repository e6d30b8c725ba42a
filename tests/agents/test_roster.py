"""Who belongs to a team, and who only did (A6)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.agents.team_roster import (
    CONFIG,
    FOREIGN_SECONDS,
    MAX_MEMBERS,
    Roster,
    TeamMember,
    member_here,
    teams,
)
from nacre.errors import MailError
from nacre.process import start_time
from nacre.testing import FrozenClock
from tests.scale import scaled

JOINER = """
import sys
from pathlib import Path
from nacre.errors import MailError
from nacre.agents.team_roster import Roster, member_here
roster = Roster(Path(sys.argv[1]), "loom")
try:
    roster.join(member_here(sys.argv[2], session=sys.argv[3]))
    print("in", flush=True)
except MailError as error:
    print(error, flush=True)
input()
"""

FULL = """
import resource, sys
from pathlib import Path
from nacre.errors import MailError
from nacre.agents.team_roster import Roster, member_here
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    Roster(Path(sys.argv[1]), "loom").join(member_here("ann"))
except MailError as error:
    print(error)
"""


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def roster(tmp_path: Path, clock: FrozenClock, told: list[str]) -> Roster:
    roster = Roster(tmp_path, "loom", notify=told.append, clock=clock)
    roster.create(member_here("main", session="s-1", cwd="/home/ada/loom", clock=clock))
    return roster


@pytest.fixture
def gone() -> int:
    """The number of a process that no longer runs."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


@pytest.fixture
def neighbour() -> Iterator[TeamMember]:
    """A member in a process of its own that lives as long as the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield TeamMember(
            name="ann",
            pid=process.pid,
            start=start_time(process.pid),
            host=socket.gethostname(),
            session="s-2",
        )
        process.kill()


def dead(pid: int, name: str = "ann", session: str = "s-2") -> TeamMember:
    return TeamMember(name=name, pid=pid, host=socket.gethostname(), session=session)


def names(roster: Roster) -> list[str]:
    return [member.name for member in roster.members()]


def test_a_team_is_a_flat_list_in_a_file_of_the_owner_alone(roster: Roster, neighbour: TeamMember) -> None:
    """A6, M27."""
    roster.join(replace(neighbour, type="explore"))
    said = json.loads((roster.folder / CONFIG).read_bytes())
    assert (said["version"], said["lead"]) == (1, "main")
    assert said["members"][0] == {
        "name": "main",
        "type": "",
        "session": "s-1",
        "pid": os.getpid(),
        "start": start_time(os.getpid()),
        "host": socket.gethostname(),
        "cwd": "/home/ada/loom",
        "joined": "2026-01-01T00:00:00+00:00",
    }
    assert [(row["name"], row["type"], row["pid"]) for row in said["members"][1:]] == [
        ("ann", "explore", neighbour.pid)
    ]
    assert (roster.folder / CONFIG).stat().st_mode & 0o777 == 0o600
    assert roster.folder.stat().st_mode & 0o777 == 0o700
    assert roster.inbox_path("ann") == roster.folder / "inboxes" / "ann.jsonl"


def test_what_is_written_is_what_is_read(roster: Roster, neighbour: TeamMember, tmp_path: Path) -> None:
    """A6: another handle, as another process has one, sees the same."""
    roster.join(neighbour)
    other = Roster(tmp_path, "loom")
    assert other.members() == roster.members()
    assert other.members()[1] == neighbour
    assert (other.lead(), other.member("bob")) == ("main", None)


def test_a_name_is_refused_while_its_holder_lives(roster: Roster, neighbour: TeamMember) -> None:
    """A6: also one that differs in capitals only, for an inbox is a file."""
    roster.join(neighbour)
    with pytest.raises(MailError, match=r"^ann is taken in team loom; choose another name$"):
        roster.join(member_here("ann"))
    with pytest.raises(MailError, match=r"^Ann is taken"):
        roster.join(member_here("Ann"))
    assert names(roster) == ["main", "ann"]


def test_the_place_of_a_dead_member_is_taken_over_without_its_tasks(roster: Roster, gone: int) -> None:
    """A6: what it had in progress is pending again, what it had completed stays."""
    roster.join(dead(gone))
    for title in ("spin", "weave"):
        roster.tasks.add(title)
        roster.tasks.claim(None, "ann")
    roster.tasks.complete(1, "ann")
    assert not roster.is_alive(roster.members()[1])
    roster.join(new := member_here("ann", session="s-3"))
    assert roster.members()[1].identity == new.identity
    assert [task.state for task in roster.tasks.list().tasks] == ["completed", "pending"]


def test_a_number_given_out_again_is_not_the_member(roster: Roster) -> None:
    """A6: the start of the process tells."""
    if not start_time(os.getpid()):
        pytest.skip("this system does not say when a process began")
    roster.join(replace(member_here("ann"), start="another:1"))
    roster.join(member_here("ann"))
    assert names(roster) == ["main", "ann"]


def test_of_another_machines_member_only_time_tells(roster: Roster, clock: FrozenClock, gone: int) -> None:
    """A6."""
    roster.join(replace(dead(gone), host="elsewhere", joined=clock.now()))
    with pytest.raises(MailError, match=r"ann is taken"):
        roster.join(member_here("ann"))
    clock.advance(FOREIGN_SECONDS)
    roster.join(member_here("ann"))


def test_who_leaves_gives_back_its_tasks_but_not_its_successors_place(roster: Roster, gone: int) -> None:
    """A6."""
    roster.join(old := dead(gone))
    roster.join(new := member_here("ann", session="s-3"))
    roster.tasks.add("spin")
    roster.tasks.claim(1, "ann")
    assert not roster.leave(old)
    assert roster.tasks.list().of(1).owner == "ann"
    assert roster.leave(new)
    assert names(roster) == ["main"]
    assert roster.tasks.list().of(1).state == "pending"
    assert not roster.leave(new)


def test_a_team_has_one_living_lead(roster: Roster, tmp_path: Path) -> None:
    """A6."""
    with pytest.raises(
        MailError, match=r"^team loom is led by main \(process \d+ on .*\); join it or choose"
    ):
        roster.create(member_here("other"))
    assert roster.lead() == "main"


def test_a_team_whose_lead_is_gone_is_led_again_with_all_that_is_there(
    tmp_path: Path, gone: int, neighbour: TeamMember
) -> None:
    """A6: a session that is resumed finds its people, their tasks and their letters."""
    roster = Roster(tmp_path, "loom")
    roster.create(dead(gone, "main", "s-1"))
    roster.join(neighbour)
    roster.tasks.add("spin")
    roster.tasks.claim(1, "ann")
    roster.create(member_here("main", session="s-1"))
    assert sorted(names(roster)) == ["ann", "main"]
    assert roster.tasks.list().of(1).owner == "ann"


def test_nobody_joins_a_team_that_nobody_began(tmp_path: Path) -> None:
    roster = Roster(tmp_path, "loom")
    with pytest.raises(MailError, match=r"there is no team loom; an agent started with team_name begins one"):
        roster.join(member_here("ann"))
    assert roster.members() == ()
    assert not roster.leave(member_here("ann"))
    with pytest.raises(MailError, match=r"there is no team loom"):
        roster.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "..", "a/b", ".x", "*", "uds:x", "locks", "LOCKS", "x" * 65])
def test_a_name_that_would_lead_astray_is_no_teams(tmp_path: Path, name: str) -> None:
    """A4, M6."""
    with pytest.raises(MailError, match=r"cannot be a team's name; take one such as"):
        Roster(tmp_path, name)


def test_no_member_has_a_name_that_would_lead_astray(roster: Roster) -> None:
    """A4, M6."""
    with pytest.raises(MailError):
        roster.join(TeamMember(name="../main"))
    with pytest.raises(MailError):
        roster.inbox_path("../../main")
    with pytest.raises(MailError):
        member_here("a/b")


def test_a_team_holds_so_many_and_no_more(roster: Roster, gone: int) -> None:
    rows = [{"name": f"m{n}", "pid": gone} for n in range(MAX_MEMBERS)]
    (roster.folder / CONFIG).write_text(json.dumps({"version": 1, "members": rows}))
    with pytest.raises(MailError, match=r"has 100 members, which is the most; begin another team"):
        roster.join(member_here("ann"))
    roster.join(member_here("m7"))


def test_a_team_goes_with_all_it_has_once_nobody_lives_there(
    roster: Roster, neighbour: TeamMember, gone: int, tmp_path: Path
) -> None:
    """A6: and what an earlier removal left half done goes as well."""
    roster.join(dead(gone, "bob"))
    roster.join(neighbour)
    roster.tasks.add("spin")
    roster.inbox_path("ann").parent.mkdir()
    roster.inbox_path("ann").write_text("{}\n")
    (tmp_path / "teams" / ".gone-1" / "inboxes").mkdir(parents=True)
    with pytest.raises(MailError, match=r"^team loom still has main, ann; stop them first$"):
        roster.remove()
    roster.leave(neighbour)
    roster.leave(roster.members()[0])
    assert teams(tmp_path) == ("loom",)
    roster.remove()
    assert teams(tmp_path) == ()
    assert [path.name for path in (tmp_path / "teams").iterdir()] == ["locks"]
    assert not roster.exists


def test_teams_are_told_by_their_file(roster: Roster, tmp_path: Path) -> None:
    Roster(tmp_path, "attic").create(member_here("main"))
    (tmp_path / "teams" / "empty").mkdir()
    (tmp_path / "teams" / ".gone-2").mkdir()
    (tmp_path / "teams" / ".gone-2" / CONFIG).write_text("{}")
    assert teams(tmp_path) == ("attic", "loom")
    assert teams(tmp_path / "nowhere") == ()


def test_what_a_newer_version_added_is_kept(roster: Roster, told: list[str]) -> None:
    """A6: of the team and of its members."""
    row = {"name": "ann", "pid": 0, "badge": [1, None]}
    (roster.folder / CONFIG).write_text(json.dumps({"version": 3, "members": [row], "motto": "\u7b97"}))
    roster.join(member_here("bob"))
    said = json.loads((roster.folder / CONFIG).read_bytes())
    assert (said["version"], said["motto"], said["members"][0]["badge"]) == (3, "\u7b97", [1, None])
    assert not told


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"null", b'{"members": {}}', b"{" * 90_000, b"9" * 5_000]
)
def test_a_damaged_roster_is_put_aside_and_told_of_in_one_line(
    roster: Roster, told: list[str], content: bytes
) -> None:
    """A6: never a traceback, and members can join again."""
    (roster.folder / CONFIG).write_bytes(content)
    assert roster.members() == ()
    [aside] = roster.folder.glob("config.bad-*.json")
    assert aside.read_bytes() == content
    [line] = told
    assert f"{CONFIG} was damaged (it holds no list of members): kept as {aside.name}" in line
    assert "\n" not in line
    roster.join(member_here("ann"))
    assert names(roster) == ["ann"]


def test_of_a_half_damaged_roster_the_sound_members_stay(
    roster: Roster, told: list[str], neighbour: TeamMember
) -> None:
    """A6: names that would lead out of the folder are not among them."""
    roster.join(neighbour)
    said = json.loads((roster.folder / CONFIG).read_bytes())
    said["members"] += [{"name": "../../main"}, {"name": "ann"}, 7, {"pid": 3}, {"name": ["x"]}]
    (roster.folder / CONFIG).write_text(json.dumps(said))
    with pytest.raises(MailError, match=r"ann is taken"):
        roster.join(member_here("ann"))
    assert names(roster) == ["main", "ann"]
    assert len(told) == 1
    assert "5 of 7 members cannot be read" in told[0]


def test_what_is_no_file_is_an_error_in_words(tmp_path: Path) -> None:
    """A roster that is a pipe must not be waited for."""
    roster = Roster(tmp_path, "loom")
    roster.folder.mkdir(parents=True)
    os.mkfifo(roster.folder / CONFIG)
    with pytest.raises(MailError, match=r"is not a regular file; move it away"):
        roster.members()


def test_a_full_disk_leaves_the_roster_as_it_was(roster: Roster) -> None:
    """A5."""
    before = (roster.folder / CONFIG).read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(roster.folder.parent.parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("disk full: "), done.stderr
    assert (roster.folder / CONFIG).read_bytes() == before


def test_of_processes_that_want_one_name_one_gets_it(roster: Roster, tmp_path: Path) -> None:
    """A6: and once it was killed, its name is free at once."""

    def started(name: str, n: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", JOINER, str(tmp_path), name, f"s-{n}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    joiners = [started("ann", n) for n in range(4)]
    joiners += [started(f"m{n}", n) for n in range(2)]
    try:
        said = [process.stdout.readline().strip() for process in joiners if process.stdout]
        assert sorted(said) == ["ann is taken in team loom; choose another name"] * 3 + ["in"] * 3
        assert sorted(names(roster)) == ["ann", "m0", "m1", "main"]
        joiners[said.index("in")].kill()
        joiners[said.index("in")].wait()
        roster.join(member_here("ann"))
    finally:
        for process in joiners:
            process.kill()
            process.communicate()


def test_who_reads_while_others_write_never_sees_half_a_roster(roster: Roster, told: list[str]) -> None:
    """A6: files are replaced whole."""
    done = threading.Event()

    def busy() -> None:
        for n in range(60):
            roster.join(member_here(f"m{n}", session="x" * 2_000))
        done.set()

    writer = threading.Thread(target=busy)
    writer.start()
    most = 0
    while not done.is_set():
        seen = len(roster.members())
        assert seen >= most
        most = seen
    writer.join()
    assert len(roster.members()) == 61
    assert not told


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["ann", "..", "a/b"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "pid", "host", "joined", "lead", "members", "version"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(said=JSON | st.fixed_dictionaries({"members": st.lists(JSON, max_size=5), "lead": JSON}))
@settings(max_examples=scaled(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_the_file_a_member_can_join(tmp_path: Path, said: object) -> None:
    """A6: no name leaves the folder; a newer version's file is refused in words at most."""
    roster = Roster(tmp_path, "loom")
    roster.folder.mkdir(parents=True, exist_ok=True)
    (roster.folder / CONFIG).write_text(json.dumps(said))
    try:
        before = roster.members()
    except MailError as error:
        assert "newer nacre" in str(error)
        return
    assert roster.members() == before
    assert all(roster.inbox_path(each.name).parent == roster.folder / "inboxes" for each in before)
    roster.join(member_here("someone-new"))
    assert roster.members()[:-1] == before
