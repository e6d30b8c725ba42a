"""The inbox on disk when things go wrong: kills, full disks, broken files, hostile paths (A3, A4, A5)."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from nacre.errors import MailError
from nacre.layers.l7_mail.letter import MAX_LINE_BYTES, written
from nacre.layers.l7_mail.mailbox import Mailbox, box_path
from nacre.layers.l7_mail.policy import MailSettings
from tests.layers.l7_mail.apart import apart, look_and_die, tear
from tests.layers.l7_mail.letters import letter, receive, texts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return box_path(tmp_path / "inboxes", "bob")


@pytest.fixture
def box(path: Path) -> Mailbox:
    return Mailbox(path)


def aside(path: Path) -> list[str]:
    """The lines that were set aside."""
    file = path.with_name("bob.bad.jsonl")
    return [json.loads(line)["line"] for line in file.read_text().splitlines()] if file.exists() else []


def spoil(path: Path, *data: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(data))


def test_a_letter_outlives_its_sender_and_its_receiver(path: Path) -> None:
    """A5: the receiver is dead, the letter stays."""
    Mailbox(path).put(letter(0))
    assert texts(Mailbox(path)) == ["letter 0"]
    seen = Mailbox(path).waiting()
    Mailbox(path).settle(seen.position)
    assert texts(Mailbox(path)) == []


def test_everything_is_for_the_owner_only(box: Mailbox, path: Path) -> None:
    box.put(letter(0))
    spoil(path, b"junk\n")
    with box.wakeup():
        receive(box)
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.rglob("*")}
    assert {mode for name, mode in modes.items() if name != "bob.bell"} == {0o600}
    assert modes["bob.bell"] == path.parent.stat().st_mode & 0o777 == 0o700


def test_a_letter_is_flushed_before_it_is_acknowledged_and_the_name_before_the_first(
    box: Mailbox, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5. Patched because a flush leaves nothing to see."""
    flushed: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        flushed.append(f"{Path(name).name}:{os.fstat(descriptor).st_size if name.endswith('.jsonl') else 0}")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    box.put(letter(0))
    size = path.stat().st_size
    assert flushed[0] == "inboxes:0"
    assert flushed[-1] == f"bob.jsonl:{size}"
    assert path.parent.parent.name in {one.partition(":")[0] for one in flushed}
    flushed.clear()
    box.put(letter(1))
    assert flushed == [f"bob.jsonl:{path.stat().st_size}"]


def test_a_flush_that_fails_takes_the_letter_back(
    box: Mailbox, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5. Patched because no disk here fails on demand."""
    box.put(letter(0))
    before = path.read_bytes()

    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(MailError, match="Input/output error"):
        box.put(letter(1))
    assert path.read_bytes() == before


FULL = """
import resource, sys
from pathlib import Path
from nacre.errors import MailError
from nacre.layers.l7_mail.mailbox import Mailbox
from tests.layers.l7_mail.letters import letter
path, room = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, resource.RLIM_INFINITY))
try:
    Mailbox(path).put(letter("big", "x" * 5000))
except MailError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 1, 100, 4999])
def test_a_full_disk_is_said_and_leaves_the_box_as_it_was(box: Mailbox, path: Path, room: int) -> None:
    """A5."""
    box.put(letter(0))
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(room)],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.stdout == f"disk full: {path} is as it was before; free some space and try again\n"
    assert path.read_bytes() == before
    box.put(letter(1))
    assert receive(box) == ["letter 0", "letter 1"]


REALLY_FULL = """
import os, sys
from pathlib import Path
from nacre.errors import MailError
from nacre.layers.l7_mail.mailbox import Mailbox
from tests.layers.l7_mail.letters import letter, receive
base = Path(sys.argv[1])
box = Mailbox(base / "inboxes" / "bob.jsonl")
(base / "ballast").write_bytes(b"x" * 40_000)
sent = refused = 0
for number in range(200):
    before = box.path.read_bytes() if box.path.exists() else b""
    try:
        box.put(letter(number, f"{number} " + "x" * 900))
        sent += 1
    except MailError as error:
        assert "free some space" in str(error), error
        assert box.path.read_bytes() == before
        refused += 1
assert sent and refused, (sent, refused)
found = receive(box)
assert [one.split()[0] for one in found] == [str(number) for number in range(sent)], found
assert receive(box) == []
(base / "ballast").unlink()
box.put(letter(999, "room again"))
assert receive(box) == ["room again"]
assert receive(Mailbox(box.path))[-1:] in ([], ["room again"])
print("as promised")
"""


@pytest.mark.slow
def test_a_disk_that_is_really_full_refuses_letters_and_gives_those_it_has(tmp_path: Path) -> None:
    """A5: a file system of 128 KiB, in a namespace of its own."""
    mounted = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        'mount -t tmpfs -o size=128k none "$0" && exec "$@"',
        str(tmp_path),
    ]
    try:
        subprocess.run([*mounted, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system lets nobody mount a file system of their own")
    done = subprocess.run(
        [*mounted, sys.executable, "-c", REALLY_FULL, str(tmp_path)],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.stdout == "as promised\n", done.stderr


def test_on_a_full_disk_letters_are_received_and_settled_all_the_same(box: Mailbox, path: Path) -> None:
    """A5: where neither cursor nor bad lines can be kept, the known ids have to do."""
    box.put(letter(0))
    spoil(path, b"junk\n")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        seen = box.waiting()
        box.settle(seen.position)
        again = box.waiting()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert ([one.text for one in seen.letters], seen.unreadable, again.letters) == (["letter 0"], 0, ())
    assert texts(Mailbox(path), ("id-0",)) == []
    assert aside(path) == ["junk"]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_a_writer_killed_in_mid_write_costs_nobody_elses_letter(path: Path, share: float) -> None:
    """A5: kill -9."""
    box = Mailbox(path)
    box.put(letter(0))

    assert apart(tear, path, share).returncode == -signal.SIGKILL
    box.put(letter(1))
    box.put(letter(2))
    expected = ["letter 0", *(["letter torn"] if share == 1.0 else []), "letter 1", "letter 2"]
    assert receive(box) == expected
    assert len(aside(path)) == (0 if share in {0.0, 1.0} else 1)


@pytest.mark.slow
def test_a_first_writer_killed_in_mid_write_leaves_a_box_for_the_next(path: Path) -> None:
    for share in (0, 0.05, 0.3):
        assert apart(tear, path, share).returncode == -signal.SIGKILL
    Mailbox(path).put(letter(1))
    assert receive(Mailbox(path)) == ["letter 1"]


def test_a_receiver_killed_before_it_settles_finds_everything_again(path: Path) -> None:
    box = Mailbox(path)
    box.put(letter(0))
    assert apart(look_and_die, path).returncode == -signal.SIGKILL
    assert receive(box) == ["letter 0"]


def test_bad_lines_are_set_aside_one_by_one_and_once(box: Mailbox, path: Path) -> None:
    """A3."""
    junk = [
        b"\x00\xff\xfe binary", b"[]", b'"text"', b"{}", b"[" * 5_000, b'{"id": 1}', b"12" * 3_000,
        written(letter(9)).replace(b'"text"', b'"order"').rstrip(), b'{"inbox":1,"generation":"other"}',
    ]  # fmt: skip
    for number, bad in enumerate(junk):
        box.put(letter(number))
        spoil(path, bad, b"\n")
    spoil(path, b"\n\n")
    seen = box.waiting()
    assert [one.text for one in seen.letters] == [f"letter {number}" for number in range(len(junk))]
    assert seen.unreadable == len(junk)
    assert Mailbox(path).waiting().unreadable == 0
    box.settle(seen.position)
    assert Mailbox(path).waiting().letters == ()
    assert [one.encode(errors="surrogateescape") for one in aside(path)] == junk
    assert all(json.loads(line)["why"] for line in path.with_name("bob.bad.jsonl").read_text().splitlines())


def test_a_line_longer_than_any_letter_is_never_held_whole(box: Mailbox, path: Path) -> None:
    box.put(letter(0))
    with path.open("ab") as file:
        for _ in range(64):
            file.write(b"x" * 1_000_000)
        file.write(b"\n")
    box.put(letter(1))
    tracemalloc.start()
    try:
        found = box.waiting()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [one.text for one in found.letters] == ["letter 0", "letter 1"]
    assert peak < 8 * MAX_LINE_BYTES
    kept = json.loads(path.with_name("bob.bad.jsonl").read_text())
    assert (kept["bytes"], len(kept["line"])) == (64_000_001, 65_536)


def test_the_file_of_bad_lines_does_not_grow_for_ever(path: Path) -> None:
    box = Mailbox(path, settings=MailSettings(aside_bytes=5_000))
    box.put(letter(0))
    for _ in range(40):
        spoil(path, b"j" * 1_000, b"\n")
        box.waiting()
    assert 5_000 <= path.with_name("bob.bad.jsonl").stat().st_size < 7_000
    assert texts(box) == ["letter 0"]


def test_a_line_that_is_not_ended_yet_is_left_alone(box: Mailbox, path: Path) -> None:
    box.put(letter(0))
    whole = written(letter(1))
    spoil(path, whole[:50])
    seen = box.waiting()
    assert (len(seen.letters), seen.unreadable) == (1, 0)
    box.settle(seen.position)
    spoil(path, whole[50:])
    assert texts(box) == ["letter 1"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"", b"\0" * 100, b"[]", b'{"generation":"x","offset":"y"}', b"[" * 10_000, b"x" * 100_000,
        b'{"generation":"x","offset":99999999999999999999999,"mark":"","aside":0}',
    ],
)  # fmt: skip
def test_a_garbage_cursor_means_from_the_beginning(path: Path, garbage: bytes) -> None:
    box = Mailbox(path)
    box.put(letter(0))
    receive(box)
    box.put(letter(1))
    path.with_name("bob.cursor").write_bytes(garbage)
    assert texts(Mailbox(path)) == ["letter 0", "letter 1"]
    assert texts(Mailbox(path), ("id-0",)) == ["letter 1"]
    fresh = Mailbox(path)
    assert receive(fresh) == ["letter 0", "letter 1"]
    assert receive(Mailbox(path)) == []


@pytest.mark.parametrize("what", ["gone", "folder", "fifo", "link"])
def test_a_cursor_that_is_no_file_stops_nobody(path: Path, tmp_path: Path, what: str) -> None:
    Mailbox(path).put(letter(0))
    cursor = path.with_name("bob.cursor")
    elsewhere = tmp_path / "elsewhere"
    match what:
        case "folder":
            cursor.mkdir()
        case "fifo":
            os.mkfifo(cursor)
        case "link":
            cursor.symlink_to(elsewhere)
    box = Mailbox(path)
    assert receive(box) == ["letter 0"]
    assert receive(box) == []
    assert not elsewhere.exists()


@pytest.mark.slow
def test_any_place_in_a_cursor_loses_nothing(path: Path) -> None:
    """A place in mid-line, or of another box, is known by the mark of the bytes before it."""
    box = Mailbox(path)
    for number in range(3):
        box.put(letter(number))
    place = box.waiting().position
    for offset in range(path.stat().st_size):
        forged = {"generation": place.generation, "offset": offset, "mark": place.mark, "aside": 0}
        path.with_name("bob.cursor").write_text(json.dumps(forged))
        assert len(texts(Mailbox(path))) == 3


def test_a_box_that_was_cut_and_has_grown_again_is_read_from_the_beginning(path: Path) -> None:
    box = Mailbox(path)
    for number in range(4):
        box.put(letter(number))
    receive(box)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    for number in range(5, 9):
        box.put(letter(number))
    known = tuple(f"id-{number}" for number in range(4))
    for reader in (box, Mailbox(path)):
        assert texts(reader, known) == ["letter 5", "letter 6", "letter 7", "letter 8"]


def test_a_lost_header_costs_one_more_reading(path: Path) -> None:
    box = Mailbox(path)
    box.put(letter(0))
    receive(box)
    data = path.read_bytes()
    path.write_bytes(b"#" + data[1:])
    box.put(letter(1))
    assert texts(box, ("id-0",)) == ["letter 1"]
    assert receive(Mailbox(path)) == ["letter 0", "letter 1"]
    assert receive(Mailbox(path)) == []


def test_a_large_box_that_was_read_is_begun_anew(path: Path) -> None:
    box = Mailbox(path, settings=MailSettings(anew_bytes=2_000))
    sent = []
    for number in range(200):
        box.put(letter(number))
        sent.append(f"letter {number}")
        if number % 7 == 0:
            assert receive(box) == sent
            sent.clear()
    assert path.stat().st_size < 4_000
    assert receive(Mailbox(path)) == sent


def test_a_large_box_is_kept_while_anything_in_it_waits(path: Path) -> None:
    box = Mailbox(path, settings=MailSettings(anew_bytes=500, look_letters=1))
    for number in range(20):
        box.put(letter(number))
    box.settle(box.waiting().position)
    box.put(letter(20))
    assert receive(box) == [f"letter {number}" for number in range(1, 21)]


def test_a_place_of_an_earlier_generation_does_not_move_the_cursor(path: Path) -> None:
    box = Mailbox(path, settings=MailSettings(anew_bytes=300))
    for number in range(3):
        box.put(letter(number))
    old = box.waiting().position
    box.settle(old)
    box.put(letter(3))
    box.settle(old)
    other = Mailbox(path)
    other.settle(old)
    assert texts(other) == texts(box) == ["letter 3"]


def test_a_quiet_box_costs_one_look_at_its_name(box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patched because what is not done leaves nothing to see."""
    box.put(letter(0))
    receive(box)
    box.waiting()
    monkeypatch.setattr(os, "open", None)
    assert box.waiting().letters == ()


def test_a_box_that_vanishes_is_empty_and_comes_back(box: Mailbox, path: Path) -> None:
    box.put(letter(0))
    receive(box)
    path.unlink()
    assert receive(box) == []
    box.put(letter(1))
    assert receive(box) == ["letter 1"]


def test_who_holds_the_lock_for_too_long_is_named_as_the_reason(path: Path) -> None:
    box = Mailbox(path, settings=MailSettings(lock_seconds=0.05))
    box.put(letter(0))
    other = Mailbox(path)
    with other._held(), pytest.raises(MailError, match="held"):
        box.put(letter(1))
    box.put(letter(2))
    assert texts(box) == ["letter 0", "letter 2"]


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "link", "dangling"])
def test_what_is_no_file_is_refused_in_one_line(box: Mailbox, path: Path, tmp_path: Path, kind: str) -> None:
    """A4: nobody is made to wait, and nothing is written through a link."""
    path.parent.mkdir(parents=True)
    victim = tmp_path / "victim.jsonl"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case "link":
            victim.write_text("theirs\n")
            path.symlink_to(victim)
        case "dangling":
            path.symlink_to(victim)
    for act in (lambda: box.put(letter(0)), box.waiting):
        with pytest.raises(MailError, match=r"remove|move it away") as refused:
            act()
        assert "\n" not in str(refused.value)
    assert not victim.exists() or victim.read_text() == "theirs\n"


def test_a_folder_that_is_a_link_is_refused(box: Mailbox, path: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    path.parent.symlink_to(tmp_path / "theirs")
    with pytest.raises(MailError, match="symlink"):
        box.put(letter(0))
    assert list((tmp_path / "theirs").iterdir()) == []


def test_a_file_where_the_folder_should_be_is_said(box: Mailbox, path: Path) -> None:
    path.parent.write_text("")
    with pytest.raises(MailError, match="choose another name"):
        box.put(letter(0))


@pytest.mark.parametrize(
    "path",
    ["bob.jsonl", "/tmp/../etc/bob.jsonl", "/tmp/bob", "/tmp/.jsonl", "/tmp/a\0.jsonl", "/tmp/a b.jsonl",
     "/tmp/..jsonl", "/tmp/a.bad.jsonl"],
)  # fmt: skip
def test_a_path_that_is_no_inbox_is_refused(path: str) -> None:
    with pytest.raises(MailError):
        Mailbox(Path(path))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a\0b", "a/b", "*", ""])
def test_a_hostile_name_has_no_box(tmp_path: Path, name: str) -> None:
    with pytest.raises(MailError):
        box_path(tmp_path, name)
