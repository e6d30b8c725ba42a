"""Letters over a Unix socket: the same user only, one line each way, never a hang (A3, A4)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nacre.errors import MailError
from nacre.layers.l7_mail import uds
from nacre.layers.l7_mail.letter import MAX_LINE_BYTES, Letter, written
from nacre.layers.l7_mail.policy import MailSettings
from nacre.layers.l7_mail.uds import send, serve
from tests.layers.l7_mail.apart import apart, listen_and_die, write_as_a_stranger
from tests.layers.l7_mail.letters import letter

QUICK = MailSettings(socket_seconds=0.2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "s").mkdir(mode=0o700)
    return tmp_path / "s" / "a"


class Taken(list[Letter]):
    async def accept(self, one: Letter) -> None:
        self.append(one)


async def raw(path: Path, data: bytes, *, end: bool = True) -> bytes:
    """What comes back for some bytes."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(data)
        if end:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_letter_is_taken_and_answered(path: Path) -> None:
    taken = Taken()
    async with serve(path, taken.accept):
        await send(path, letter(1, "hello", sender="uds:/run/ann.sock"))
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(await raw(path, written(letter(2)))) == {"accepted": "id-2"}
    assert [(one.text, one.sender) for one in taken] == [
        ("hello", "uds:/run/ann.sock"),
        ("letter 2", "other:ann"),
    ]
    assert list(path.parent.iterdir()) == []


async def test_a_letter_is_only_acknowledged_once_it_is_safe(path: Path) -> None:
    async def full(one: Letter) -> None:
        raise MailError("disk full; free some space")

    async with serve(path, full):
        with pytest.raises(MailError, match="refused the letter: disk full; free some space"):
            await send(path, letter())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"junk\n", "not JSON"),
        (b"\n", "not JSON"),
        (b"", "cut off"),
        (written(letter())[:-10], "cut off"),
        (b"[]\n", "not an object"),
        (written(letter()).replace(b'"text"', b'"order"'), "shutdown_request"),
        (b"x" * (MAX_LINE_BYTES * 3), "at most"),
        (written(letter()).replace(b'"ann"', b'"../ann"'), "cannot be an agent's name"),
    ],
    ids=["junk", "blank", "nothing", "torn", "list", "kind", "long", "name"],
)  # fmt: skip
async def test_what_is_no_letter_is_refused_with_the_reason(path: Path, data: bytes, says: str) -> None:
    """A4."""
    taken = Taken()
    async with serve(path, taken.accept):
        answer = await raw(path, data)
        assert says in json.loads(answer)["refused"]
        await send(path, letter(1))
    assert len(taken) == 1


async def test_another_user_is_refused_at_both_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A4. Patched because a test has no second user."""
    taken = Taken()
    async with serve(path, taken.accept):
        mine = os.geteuid()
        answers = iter([mine, mine + 1])
        monkeypatch.setattr(uds, "_peer_uid", lambda connected: next(answers))
        with pytest.raises(MailError, match="only the same user"):
            await send(path, letter())
        monkeypatch.setattr(uds, "_peer_uid", lambda connected: mine + 1)
        with pytest.raises(MailError, match="another user's process"):
            await send(path, letter())
    assert taken == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_a_process_of_another_user_is_refused_by_the_kernels_word(tmp_path: Path) -> None:
    """A4: with the modes of folder and socket opened by hand, credentials still decide."""
    place = Path("/tmp") / f"nacre-uds-{os.getpid()}"
    place.mkdir(mode=0o700)
    path, taken = place / "a", Taken()
    try:
        async with serve(path, taken.accept):
            place.chmod(0o755)
            path.chmod(0o666)
            done = await asyncio.to_thread(apart, write_as_a_stranger, path)
        assert "only the same user" in done.stdout, done.stderr
        assert taken == []
    finally:
        place.rmdir()


async def test_a_socket_of_another_user_is_not_connected_to(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patched because a test has no second user."""
    async with serve(path, Taken().accept):
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        with pytest.raises(MailError, match="belongs to another user"):
            await send(path, letter())
        monkeypatch.undo()


@pytest.mark.parametrize("kind", ["missing", "file", "folder", "fifo", "link", "stale"])
async def test_what_is_no_live_socket_is_refused(path: Path, kind: str) -> None:
    match kind:
        case "file":
            path.write_text("theirs")
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(path.with_name("b"))
        case "stale":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
    with pytest.raises(MailError, match=r"no socket at|not a socket|no session listens") as refused:
        await send(path, letter())
    assert "\n" not in str(refused.value)
    if kind not in {"missing", "stale"}:
        with pytest.raises(MailError, match="not a socket"):
            async with serve(path, Taken().accept):
                pass
        assert os.path.lexists(path)


async def test_a_link_to_a_live_socket_is_refused(path: Path) -> None:
    link = path.with_name("link")
    async with serve(path, Taken().accept):
        link.symlink_to(path)
        with pytest.raises(MailError, match="not a socket"):
            await send(link, letter())


@pytest.mark.parametrize(
    "path", ["relative/a", "/tmp/../a", "/tmp/a\0b", "/tmp/" + "x" * 120, "/tmp/" + "测" * 40]
)
async def test_a_path_that_cannot_be_one_is_refused(path: str) -> None:
    for act in (send(path, letter()), serve(path, Taken().accept).__aenter__()):
        with pytest.raises(MailError) as refused:
            await act
        assert "\n" not in str(refused.value)


async def test_a_stale_socket_is_replaced_and_a_live_one_is_not(path: Path) -> None:
    assert apart(listen_and_die, path).returncode == -signal.SIGKILL
    taken = Taken()
    async with serve(path, taken.accept):
        with pytest.raises(MailError, match="another session listens"):
            async with serve(path, Taken().accept):
                pass
        await send(path, letter())
    assert len(taken) == 1


async def test_a_socket_of_another_program_is_not_taken_away(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(MailError, match="another program listens"):
            async with serve(path, Taken().accept):
                pass
        assert path.is_socket()


async def test_a_folder_that_others_can_enter_is_refused(path: Path) -> None:
    path.parent.chmod(0o755)
    with pytest.raises(MailError, match="chmod 700"):
        async with serve(path, Taken().accept):
            pass
    link = path.parent.with_name("l")
    path.parent.chmod(0o700)
    link.symlink_to(path.parent)
    with pytest.raises(MailError, match="a link"):
        async with serve(link / "a", Taken().accept):
            pass


async def test_a_missing_folder_is_made_for_the_owner_only(path: Path) -> None:
    async with serve(path.parent / "new" / "a", Taken().accept):
        assert (path.parent / "new").stat().st_mode & 0o777 == 0o700


async def test_a_sender_that_stalls_is_let_go(path: Path) -> None:
    async with serve(path, Taken().accept, settings=QUICK):
        assert await raw(path, b'{"id"', end=False) == b""


async def fake(path: Path, answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> asyncio.Server:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        await answer(writer)
        writer.close()

    return await asyncio.start_unix_server(talk, path)


@pytest.mark.parametrize(
    "answer",
    [b"", b"junk\n", b"[]\n", b'{"accepted": "another"}\n', b"x" * 100_000 + b"\n", b"[" * 4_000 + b"\n"],
    ids=["nothing", "junk", "list", "other", "long", "deep"],
)
async def test_an_answer_that_is_none_is_not_taken_for_yes(path: Path, answer: bytes) -> None:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    server = await fake(path, say)
    with pytest.raises(MailError, match="may have arrived"):
        await send(path, letter())
    server.close()


async def test_a_receiver_that_stalls_is_given_up(path: Path) -> None:
    async def stall(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.5)

    server = await fake(path, stall)
    with pytest.raises(MailError, match=r"within 0\.2 s"):
        await send(path, letter(), settings=QUICK)
    await asyncio.sleep(0.5)
    server.close()


async def test_a_reason_to_refuse_is_one_line_whatever_it_says(path: Path) -> None:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps({"refused": "a\nb\x1b[31m" + "c" * 3_000}).encode() + b"\n")

    server = await fake(path, say)
    with pytest.raises(MailError) as refused:
        await send(path, letter())
    server.close()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


async def test_only_so_many_talk_at_once(path: Path) -> None:
    go_on = asyncio.Event()

    async def slow(one: Letter) -> None:
        await go_on.wait()

    async with serve(path, slow, settings=MailSettings(socket_talks=2)):
        first = [asyncio.create_task(send(path, letter(number))) for number in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(MailError, match="too many"):
            await send(path, letter(2))
        go_on.set()
        await asyncio.gather(*first)


async def test_a_talk_that_is_under_way_comes_to_its_end_when_the_session_does(path: Path) -> None:
    taken = Taken()
    begun = asyncio.Event()

    async def slow(one: Letter) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        taken.append(one)

    async with serve(path, slow):
        sending = asyncio.create_task(send(path, letter()))
        await begun.wait()
    await sending
    assert len(taken) == 1


async def test_many_letters_at_once_all_arrive(path: Path) -> None:
    taken = Taken()
    async with serve(path, taken.accept):
        for start in range(0, 60, 10):
            await asyncio.gather(*(send(path, letter(start + number)) for number in range(10)))
    assert {one.id for one in taken} == {f"id-{number}" for number in range(60)}
