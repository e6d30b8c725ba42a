"""The tasks of a team: claimed once, never in a circle, whole after any kill (A6)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from nacre.agents import team_tasks as task_list
from nacre.agents.team_tasks import MAX_BLOCKERS, MAX_DETAIL_CHARS, MAX_TASKS, TASKS, TaskList, TeamTasks
from nacre.errors import MailError
from nacre.testing import FrozenClock
from tests.scale import scaled

ROOT = Path(__file__).parents[2]
MEMBER = Path(__file__).with_name("claiming.py")

FULL = """
import resource, sys
from pathlib import Path
from nacre.errors import MailError
from nacre.agents.team_tasks import TeamTasks
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
try:
    TeamTasks(Path(sys.argv[1])).add("weave", "x" * 1_000)
except MailError as error:
    print(error)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "teams" / "loom"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def tasks(folder: Path, told: list[str]) -> TeamTasks:
    return TeamTasks(folder, notify=told.append, clock=FrozenClock())


def states(tasks: TeamTasks) -> list[tuple[int, str, str]]:
    return [(task.id, task.state, task.owner) for task in tasks.list().tasks]


def test_a_task_goes_from_pending_to_completed_in_one_pair_of_hands(tasks: TeamTasks) -> None:
    """A6."""
    tasks.add("  spin \n the  yarn ", "of flax")
    claimed = tasks.claim(1, "ann")
    assert (claimed.title, claimed.detail, claimed.state, claimed.owner) == (
        "spin the yarn", "of flax", "in_progress", "ann",
    )  # fmt: skip
    with pytest.raises(MailError, match=r"task 1 is in progress by ann; claim another"):
        tasks.claim(1, "bob")
    with pytest.raises(MailError, match=r"only ann can complete it"):
        tasks.complete(1, "bob")
    done = tasks.complete(1, "ann")
    assert done.completed == FrozenClock().now()
    with pytest.raises(MailError, match=r"task 1 is completed by ann"):
        tasks.claim(1, "bob")


def test_who_waits_cannot_be_claimed_and_the_refusal_names_what_it_waits_for(tasks: TeamTasks) -> None:
    """A6."""
    tasks.add("spin")
    tasks.add("dye")
    tasks.add("weave", blocked_by=[1, 2])
    with pytest.raises(MailError, match=r"^task 3 waits for 1 \(spin\), 2 \(dye\)$"):
        tasks.claim(3, "ann")
    tasks.claim(None, "ann")
    tasks.complete(1, "ann")
    with pytest.raises(MailError, match=r"^task 3 waits for 2 \(dye\)$"):
        tasks.claim(3, "ann")
    tasks.claim(2, "bob")
    with pytest.raises(MailError, match=r"^no task is free: 1 wait for others, 1 in progress$"):
        tasks.claim(None, "ann")
    tasks.complete(2, "bob")
    assert tasks.claim(None, "ann").id == 3


def test_links_stand_on_both_sides_on_disk(tasks: TeamTasks, folder: Path) -> None:
    """A6: `blocks` and `blockedBy`."""
    tasks.add("spin")
    tasks.add("sell")
    tasks.add("weave", blocked_by=[1], blocks=[2])
    said = json.loads((folder / TASKS).read_bytes())
    assert said["version"] == 1
    assert [(row["id"], row["blocks"], row["blockedBy"]) for row in said["tasks"]] == [
        (1, [3], []), (2, [], [3]), (3, [2], [1]),
    ]  # fmt: skip
    assert (folder / TASKS).stat().st_mode & 0o777 == 0o600


def test_circles_and_unknown_tasks_are_refused_and_change_nothing(tasks: TeamTasks, folder: Path) -> None:
    """A6."""
    tasks.add("spin")
    tasks.add("weave", blocked_by=[1])
    before = (folder / TASKS).read_bytes()
    with pytest.raises(MailError, match=r"in a circle: \d → \d → \d → \d$"):
        tasks.add("both ends", blocked_by=[2], blocks=[1])
    with pytest.raises(MailError, match=r"in a circle"):
        tasks.add("itself", blocked_by=[1], blocks=[1])
    with pytest.raises(MailError, match=r"there is no task 3 \(1 to 2\)"):
        tasks.add("itself", blocked_by=[3])
    with pytest.raises(MailError, match=r"there is no task 9"):
        tasks.claim(9, "ann")
    tasks.claim(1, "ann")
    with pytest.raises(MailError, match=r"task 1 is in progress by ann and cannot wait any more"):
        tasks.add("too late", blocks=[1])
    tasks.release("ann")
    assert (folder / TASKS).read_bytes() == before


def test_what_a_stopped_member_had_can_be_claimed_again(tasks: TeamTasks) -> None:
    """A6: and what it had completed stays so."""
    for title in ("a", "b", "c", "d"):
        tasks.add(title)
    for number, owner in ((1, "ann"), (2, "ann"), (3, "bob"), (4, "ann")):
        tasks.claim(number, owner)
    tasks.complete(1, "ann")
    assert [task.id for task in tasks.release("ann", 4)] == [4]
    with pytest.raises(MailError, match=r"task 3 is in progress by bob, not in progress by ann"):
        tasks.release("ann", 3)
    assert [task.id for task in tasks.release("ann")] == [2]
    assert tasks.release("ann") == ()
    assert states(tasks) == [
        (1, "completed", "ann"),
        (2, "pending", ""),
        (3, "in_progress", "bob"),
        (4, "pending", ""),
    ]


def test_only_what_still_stands_as_it_was_seen_is_given_back(tasks: TeamTasks) -> None:
    """A6: a member that came back in between keeps what it claimed."""
    tasks.add("a")
    tasks.add("b")
    seen = [tasks.claim(1, "ann"), tasks.claim(2, "ann")]
    tasks.release("ann", 2)
    tasks.claim(2, "bob")
    tasks.give_back(seen)
    assert states(tasks) == [(1, "pending", ""), (2, "in_progress", "bob")]


def test_a_list_is_bounded_and_makes_room_by_what_is_done(tasks: TeamTasks, folder: Path) -> None:
    """A6: number and size; the numbers of tasks are never given out again."""
    with pytest.raises(MailError, match=r"a title of at most 300"):
        tasks.add(" \n ")
    with pytest.raises(MailError, match=r"a title of at most 300"):
        tasks.add("x" * 301)
    with pytest.raises(MailError, match=r"write the rest to a file"):
        tasks.add("x", "y" * (MAX_DETAIL_CHARS + 1))
    filled = TaskList()
    for number in range(MAX_TASKS):
        filled = filled.with_task(
            task_list.TeamTask(id=0, title=f"task {number}"), blocked_by=[1] if number == 5 else []
        )
    with pytest.raises(MailError, match=r"500 tasks that are not completed"):
        filled.with_task(task_list.TeamTask(id=0, title="one more"))
    filled, _ = filled.claimed(1, "ann", at=FrozenClock().now())
    filled, _ = filled.completed(1, "ann", at=FrozenClock().now())
    filled = filled.with_task(task_list.TeamTask(id=0, title="one more"))
    assert (len(filled.tasks), filled.tasks[0].id, filled.tasks[-1].id) == (MAX_TASKS, 2, MAX_TASKS + 1)
    assert filled.of(6).blocked_by == ()
    with pytest.raises(MailError, match=rf"wait for more than {MAX_BLOCKERS} tasks"):
        filled.with_task(task_list.TeamTask(id=0, title="x"), blocked_by=range(2, 3 + MAX_BLOCKERS))


def test_what_a_newer_version_added_is_kept(tasks: TeamTasks, folder: Path, told: list[str]) -> None:
    """A6: fields that are not known here survive a change made here."""
    row = {"id": 4, "title": "spin", "state": "pending", "mood": {"odd": "\ud800"}}
    (folder / TASKS).write_text(json.dumps({"version": 2, "tasks": [row], "colour": "red"}))
    tasks.claim(4, "ann")
    said = json.loads((folder / TASKS).read_bytes())
    assert (said["version"], said["colour"], said["tasks"][0]["mood"]) == (2, "red", {"odd": "\ud800"})
    assert tasks.add("next").id == 5
    assert not told


def test_a_newer_file_that_cannot_be_read_is_left_alone(tasks: TeamTasks, folder: Path) -> None:
    """A6."""
    (folder / TASKS).write_text('{"version": 2, "tasks": {"1": "spin"}}')
    with pytest.raises(MailError, match=r"written by a newer nacre; bring this one up to date"):
        tasks.list()
    assert [path.name for path in folder.iterdir()] == [TASKS]


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 40, b"[]", b'{"tasks": [', b"[" * 90_000, b'{"tasks": 3}']
)
def test_a_damaged_list_is_put_aside_and_told_of_in_one_line(
    tasks: TeamTasks, folder: Path, told: list[str], content: bytes
) -> None:
    """A6: never a traceback, and not a byte lost."""
    (folder / TASKS).write_bytes(content)
    assert tasks.list().tasks == ()
    [aside] = folder.glob("tasks.bad-*.json")
    assert aside.read_bytes() == content
    [line] = told
    assert line == (
        f"{folder / TASKS} was damaged (it holds no list of tasks): kept as {aside.name}, "
        "what could be read stays"
    )
    assert tasks.add("go on").id == 1
    assert len(told) == 1


def test_of_a_half_damaged_list_the_sound_half_stays(tasks: TeamTasks, folder: Path, told: list[str]) -> None:
    """A6: even where the act that found the damage is refused."""
    rows = [
        {"id": 3, "title": "spin", "state": "in_progress", "owner": "ann", "blocks": [5, 99]},
        {"id": 3, "title": "again", "state": "pending"},
        {"id": True, "title": "true", "state": "pending"},
        {"id": 4, "title": "odd", "state": "asleep"},
        {"id": 5, "title": "weave", "state": "in_progress"},
        "spun",
    ]
    (folder / TASKS).write_text(json.dumps({"version": 1, "tasks": rows}))
    with pytest.raises(MailError, match=r"task 5 waits for 3"):
        tasks.claim(5, "bob")
    assert [(task.id, task.state, task.blocked_by) for task in tasks.list().tasks] == [
        (3, "in_progress", ()), (5, "pending", (3,)),
    ]  # fmt: skip
    assert len(told) == 1
    assert "4 of 6 tasks cannot be read" in told[0]


def test_a_circle_that_somebody_wrote_by_hand_is_opened(tasks: TeamTasks, folder: Path) -> None:
    """A6: links that lead forward go, those to earlier tasks stay."""
    rows = [{"id": n, "title": "x", "state": "pending", "blockedBy": [1 + n % 3]} for n in (1, 2, 3)]
    (folder / TASKS).write_text(json.dumps({"version": 1, "tasks": rows}))
    assert [task.blocked_by for task in tasks.list().tasks] == [(), (), (1,)]
    assert tasks.claim(None, "ann").id == 1


def test_a_team_that_was_removed_does_not_come_back_by_a_task(tasks: TeamTasks, folder: Path) -> None:
    folder.rmdir()
    with pytest.raises(MailError, match=r"there is no team loom"):
        tasks.add("spin")
    assert not folder.exists()


def test_a_full_disk_leaves_the_list_as_it_was(folder: Path) -> None:
    """A5."""
    TeamTasks(folder).add("spin")
    before = (folder / TASKS).read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("disk full: "), done.stderr
    assert (folder / TASKS).read_bytes() == before
    assert [path.name for path in folder.iterdir()] == [TASKS]


@pytest.mark.slow
def test_of_many_processes_one_gets_each_task_whoever_is_killed(folder: Path, told: list[str]) -> None:
    """A6: eight members, two hundred tasks, SIGKILL every now and then."""
    tasks = TeamTasks(folder, notify=told.append)
    for number in range(1, 201):
        tasks.add(f"task {number}", blocked_by=[number - 7] if number % 10 == 0 else [])
    members = {f"m{n}": _member(folder, f"m{n}") for n in range(8)}
    given_back: Counter[int] = Counter()
    try:
        for turn in range(12):
            _wait_for(tasks, done=15 * (turn + 1))
            name = f"m{turn % 8}"
            members[name].kill()
            assert members[name].wait() == -signal.SIGKILL
            given_back.update(task.id for task in tasks.release(name))
            members[name] = _member(folder, name)
        assert [member.wait(timeout=120) for member in members.values()] == [0] * 8
    finally:
        for member in members.values():
            member.kill()
            member.wait()
    claims = Counter(
        int(line) for notes in folder.parent.glob("*.claims") for line in notes.read_text().split()
    )
    assert {task.state for task in tasks.list().tasks} == {"completed"}
    assert not [number for number in range(1, 201) if not 1 <= claims[number] <= 1 + given_back[number]]
    assert not told
    assert [path.name for path in folder.iterdir()] == [TASKS]


def _wait_for(tasks: TeamTasks, *, done: int) -> None:
    for _ in range(6_000):
        if sum(task.state == "completed" for task in tasks.list().tasks) >= done:
            return
        time.sleep(0.01)
    raise AssertionError(f"{done} tasks were not done within a minute")


def _member(folder: Path, owner: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(MEMBER), str(folder), owner], cwd=ROOT)


OWNERS = st.sampled_from(["ann", "bob", "cy"])
NUMBERS = st.integers(0, 12)


class Shared(RuleBasedStateMachine):
    """Two handles on one list, as two processes have them, against a plain model."""

    @initialize()
    def begin(self) -> None:
        self.base = tempfile.TemporaryDirectory()
        folder = Path(self.base.name) / "loom"
        folder.mkdir()
        self.handles = [TeamTasks(folder), TeamTasks(folder)]
        self.model: dict[int, list[object]] = {}
        self.waits: dict[int, set[int]] = {}

    def teardown(self) -> None:
        if hasattr(self, "base"):
            self.base.cleanup()

    def open_before(self, number: int) -> set[int]:
        return {each for each in self.waits[number] if self.model[each][0] != "completed"}

    @rule(
        which=st.integers(0, 1),
        blocked_by=st.lists(NUMBERS, max_size=3),
        blocks=st.lists(NUMBERS, max_size=3),
    )
    def add(self, which: int, blocked_by: list[int], blocks: list[int]) -> None:
        new = len(self.model) + 1
        reached, open_ = set(blocked_by), [each for each in blocked_by if each in self.waits]
        while open_:
            fresh = self.waits[open_.pop()] - reached
            reached |= fresh
            open_ += fresh
        known = set(blocked_by) | set(blocks) <= self.model.keys()
        allowed = (
            known and all(self.model[each][0] == "pending" for each in blocks) and not reached & set(blocks)
        )
        try:
            task = self.handles[which].add("x", blocked_by=blocked_by, blocks=blocks)
        except MailError:
            assert not allowed
            return
        assert allowed
        assert task.id == new
        self.model[new] = ["pending", ""]
        self.waits[new] = set(blocked_by)
        for each in blocks:
            self.waits[each].add(new)

    @rule(which=st.integers(0, 1), number=NUMBERS | st.none(), owner=OWNERS)
    def claim(self, which: int, number: int | None, owner: str) -> None:
        free = [
            each
            for each, (state, _) in self.model.items()
            if state == "pending" and not self.open_before(each)
        ]
        expected = min(free, default=None) if number is None else number if number in free else None
        try:
            task = self.handles[which].claim(number, owner)
        except MailError:
            assert expected is None
            return
        assert (task.id, task.owner) == (expected, owner)
        self.model[task.id] = ["in_progress", owner]

    @rule(which=st.integers(0, 1), number=NUMBERS, owner=OWNERS)
    def complete(self, which: int, number: int, owner: str) -> None:
        allowed = self.model.get(number) == ["in_progress", owner]
        try:
            self.handles[which].complete(number, owner)
        except MailError:
            assert not allowed
            return
        assert allowed
        self.model[number] = ["completed", owner]

    @rule(which=st.integers(0, 1), owner=OWNERS)
    def release(self, which: int, owner: str) -> None:
        held = [each for each, now in self.model.items() if now == ["in_progress", owner]]
        assert [task.id for task in self.handles[which].release(owner)] == sorted(held)
        self.model.update({each: ["pending", ""] for each in held})

    @invariant()
    def both_see_the_model(self) -> None:
        if not hasattr(self, "handles"):
            return
        for handle in self.handles:
            tasks = handle.list().tasks
            assert {task.id: [task.state, task.owner] for task in tasks} == self.model
            assert {task.id: set(task.blocked_by) for task in tasks} == self.waits
            blocks = {(task.id, each) for task in tasks for each in task.blocks}
            assert blocks == {(each, task.id) for task in tasks for each in task.blocked_by}
            assert task_list._circle(tasks) == []


@pytest.mark.slow
def test_the_list_behaves_like_its_model_whatever_is_asked() -> None:
    """A6: no circles ever, claims exclusive, both sides of a link agree."""
    run_state_machine_as_test(
        Shared, settings=settings(max_examples=scaled(60), stateful_step_count=25, deadline=None)
    )


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.sampled_from(["", "x", "pending", "completed", "ann"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["id", "title", "state", "owner", "blockedBy", "blocks", "tasks", "nextId", "version"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@given(rows=st.lists(JSON, max_size=6), rest=JSON)
@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_the_file_the_list_can_be_used(
    folder: Path, rows: list[object], rest: object
) -> None:
    """A6: read twice it says the same, and a task can be added, claimed and completed."""
    said = {**(rest if isinstance(rest, dict) else {}), "version": 1, "tasks": rows}
    (folder / TASKS).write_text(json.dumps(said))
    tasks = TeamTasks(folder)
    before = tasks.list().tasks
    assert tasks.list().tasks == before
    task = tasks.add("new")
    assert task.id not in {each.id for each in before}
    tasks.claim(task.id, "ann")
    tasks.complete(task.id, "ann")
    assert tasks.list().tasks[:-1] == before
