"""Sending to names, to everyone, over sockets and bridges (A3, A4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.errors import MailError
from nacre.layers.l7_mail.inbox import Inbox, MemoryInbox
from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.mailbox import Mailbox, box_path
from nacre.layers.l7_mail.post import Post, SentLetters
from nacre.layers.l7_mail.uds import serve
from nacre.testing import FrozenClock
from tests.layers.l7_mail.letters import letter, texts

NAMES = ("main", "ann", "bob", "cleo")
AT = FrozenClock().now()


class Office:
    """Everybody's inboxes, and who was woken with how much in the inbox."""

    def __init__(self) -> None:
        self.boxes: dict[str, Inbox] = {name: MemoryInbox() for name in NAMES}
        self.woken: list[tuple[str, int]] = []

    async def wake(self, name: str) -> None:
        self.woken.append((name, len(texts(self.boxes[name]))))

    def post(self, sender: str = "ann") -> Post:
        return Post(
            sender,
            find=self.boxes.get,
            everyone=lambda: list(self.boxes),
            wake=self.wake,
            clock=FrozenClock(),
        )


@pytest.fixture
def office() -> Office:
    return Office()


async def test_a_letter_to_a_name_waits_there_before_anybody_is_woken(office: Office) -> None:
    sent = await office.post().send("bob", "All green.\nEvery test.", summary="tests\npass")
    [found] = office.boxes["bob"].waiting().letters
    assert found == Letter(
        id=sent.ids[0], sender="ann", to="bob", text="All green.\nEvery test.", summary="tests pass", at=AT
    )
    assert sent == SentLetters(("bob",), (found.id,))
    assert office.woken == [("bob", 1)]


async def test_without_a_summary_the_first_line_is_it(office: Office) -> None:
    """A3b."""
    await office.post().send("bob", "\n  Done with   the parser. \nDetails follow.")
    assert office.boxes["bob"].waiting().letters[0].summary == "Done with the parser."


async def test_everyone_is_everyone_but_the_sender_each_with_a_letter_of_its_own(office: Office) -> None:
    """A3."""
    sent = await office.post().send("*", "hello")
    assert sent.to == ("main", "bob", "cleo")
    for name, number in zip(sent.to, sent.ids, strict=True):
        assert [(one.id, one.to) for one in office.boxes[name].waiting().letters] == [(number, name)]
    assert texts(office.boxes["ann"]) == []
    assert len(set(sent.ids)) == 3


async def test_who_was_not_reached_is_named_with_those_who_were(office: Office, tmp_path: Path) -> None:
    path = box_path(tmp_path, "bob")
    path.mkdir()
    office.boxes["bob"] = Mailbox(path)
    with pytest.raises(
        MailError, match=r"^sent to main, cleo; not to bob \(.*not a regular file.*\)"
    ) as refused:
        await office.post().send("*", "hello")
    assert "\n" not in str(refused.value)
    assert texts(office.boxes["cleo"]) == ["hello"]


async def test_to_nobody_nothing_is_sent(office: Office) -> None:
    office.boxes = {"ann": MemoryInbox()}
    with pytest.raises(MailError, match="no other agent"):
        await office.post().send("*", "hello")
    with pytest.raises(MailError, match="no other agent"):
        await office.post().send("bob", "hello")


async def test_a_letter_to_oneself_is_refused(office: Office) -> None:
    with pytest.raises(MailError, match="oneself"):
        await office.post().send("ann", "hello")
    assert texts(office.boxes["ann"]) == []


async def test_an_unknown_name_is_refused_with_those_that_are_near(office: Office) -> None:
    with pytest.raises(MailError, match="no agent 'clea'; did you mean cleo"):
        await office.post().send("clea", "hello")
    with pytest.raises(MailError, match="there are bob, cleo, main"):
        await office.post().send("zzzzzz", "hello")


@pytest.mark.parametrize("to", ["../bob", "/etc/passwd", "bob\0", "", "tcp:x"])
async def test_a_hostile_address_is_refused(office: Office, to: str) -> None:
    with pytest.raises(MailError):
        await office.post().send(to, "hello")


async def test_a_letter_too_long_reaches_nobody(office: Office) -> None:
    """A4."""
    with pytest.raises(MailError, match="100,000"):
        await office.post().send("*", "x" * 100_001)
    assert [texts(box) for box in office.boxes.values()] == [[], [], [], []]


async def test_structured_letters_go_out_whole(office: Office) -> None:
    """A4."""
    post = office.post()
    asked = await post.send("bob", "", kind="shutdown_request")
    await office.post("bob").send(
        "ann", "still busy", kind="shutdown_response", approves=False, answers=asked.ids[0]
    )
    [answer] = office.boxes["ann"].waiting().letters
    assert (answer.kind, answer.approves, answer.answers) == ("shutdown_response", False, asked.ids[0])
    with pytest.raises(MailError, match="one agent"):
        await post.send("*", "", kind="shutdown_response", approves=True, answers="x")


async def test_one_who_cannot_be_woken_has_the_letter_all_the_same(office: Office) -> None:
    async def asleep(name: str) -> None:
        raise MailError("its session is gone")

    post = Post("ann", find=office.boxes.get, everyone=lambda: NAMES, wake=asleep)
    sent = await post.send("bob", "hello")
    assert sent.notes == ("bob has the letter but could not be woken: its session is gone",)
    assert texts(office.boxes["bob"]) == ["hello"]


async def test_a_letter_over_a_socket_names_where_to_answer(office: Office, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    path, taken = tmp_path / "s" / "a", MemoryInbox()

    async def accept(one: Letter) -> None:
        taken.put(one)

    post = office.post()
    async with serve(path, accept):
        first = await post.send(f"uds:{path}", "hello")
        post.answer_at("uds:/run/ann.sock")
        await post.send(f"uds:{path}", "again")
    assert first.to == (f"uds:{path}",)
    assert [(one.sender, one.to) for one in taken.waiting().letters] == [
        ("other:ann", "main"),
        ("uds:/run/ann.sock", "main"),
    ]


async def test_an_address_on_another_host_is_refused(office: Office) -> None:
    with pytest.raises(MailError, match="no bridge"):
        await office.post().send("bridge:7f", "hello")


class SlowTray(MemoryInbox):
    """Takes its time, until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def put(self, letter: Letter) -> None:
        self.begun.set()
        self.go_on.wait(20)
        super().put(letter)


async def test_a_sender_that_is_cancelled_has_sent_or_not_by_then(office: Office) -> None:
    slow = SlowTray()
    office.boxes["bob"] = slow
    sending = asyncio.create_task(office.post().send("bob", "hello"))
    await asyncio.to_thread(slow.begun.wait, 20)
    sending.cancel()
    asyncio.get_running_loop().call_later(0.02, slow.go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert texts(slow) == ["hello"]


async def test_letters_of_one_sender_stay_in_order(tmp_path: Path) -> None:
    box = Mailbox(box_path(tmp_path, "bob"))
    find: Callable[[str], Inbox | None] = {"bob": box}.get
    posts = [Post(sender, find=find, everyone=lambda: ["bob"]) for sender in ("ann", "cleo")]

    async def write(post: Post) -> None:
        for number in range(10):
            await post.send("bob", f"{number}")

    await asyncio.gather(*map(write, posts))
    found = box.waiting().letters
    for sender in ("ann", "cleo"):
        assert [one.text for one in found if one.sender == sender] == [str(number) for number in range(10)]


def test_a_sender_needs_a_name() -> None:
    with pytest.raises(MailError):
        Post("../x", find=lambda name: None, everyone=list)
    assert letter().sender == Post("ann", find=lambda name: None, everyone=list).sender
