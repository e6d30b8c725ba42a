"""One contract for all kinds of inbox: on disk, in memory and in a database (A3, A5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from nacre.errors import MailError
from nacre.layers.l7_mail.inbox import Inbox, InboxPosition, MemoryInbox
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.layers.l7_mail.policy import MailSettings
from tests.layers.l7_mail.letters import letter, receive, texts
from tests.postgres import execute, new_database

Make: TypeAlias = Callable[[MailSettings], Inbox]


@pytest.fixture(params=["mailbox", "tray", "rows"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "rows":
        address = new_database()
        execute(
            address,
            "BEGIN; SET LOCAL nacre.tenant = 'acme'; INSERT INTO nacre.tenants VALUES ('acme');"
            " INSERT INTO nacre.users VALUES ('acme', 'bob'); COMMIT",
        )
        from nacre.layers.l7_mail.shared_inbox import SharedInbox
        from nacre.store.postgres.database import Database
        from nacre.store.postgres.letter_rows import LetterRows

        rows = LetterRows(Database(address), "acme", "bob", "session-1")
        return lambda settings: SharedInbox(rows, settings=settings)
    if request.param == "tray":
        return lambda settings: MemoryInbox(settings=settings)
    return lambda settings: Mailbox(tmp_path / "inboxes" / "bob.jsonl", settings=settings)


@pytest.fixture
def inbox(make: Make) -> Inbox:
    return make(MailSettings())


def test_an_inbox_nobody_wrote_to_is_empty(inbox: Inbox) -> None:
    seen = inbox.waiting()
    assert (seen.letters, seen.unreadable, seen.has_more) == ((), 0, False)
    inbox.settle(seen.position)
    assert texts(inbox) == []


def test_letters_wait_in_order_until_they_are_settled(inbox: Inbox) -> None:
    for number in range(3):
        inbox.put(letter(number))
    first = inbox.waiting()
    assert first.letters == tuple(letter(number) for number in range(3))
    assert inbox.waiting() == first
    inbox.put(letter(3))
    inbox.settle(first.position)
    assert texts(inbox) == ["letter 3"]


def test_what_is_known_is_not_given_again(inbox: Inbox) -> None:
    """A3: the receiver's transcript knows the ids."""
    for number in range(3):
        inbox.put(letter(number))
    assert texts(inbox, ("id-0", "id-2")) == ["letter 1"]
    assert texts(inbox, ("id-0", "id-1", "id-2")) == []
    assert len(texts(inbox)) == 3


def test_a_letter_that_was_sent_twice_is_given_once(inbox: Inbox) -> None:
    for number in (0, 1, 0):
        inbox.put(letter(number))
    assert receive(inbox) == ["letter 0", "letter 1"]


def test_the_cursor_never_goes_back(inbox: Inbox) -> None:
    inbox.put(letter(0))
    early = inbox.waiting().position
    inbox.put(letter(1))
    late = inbox.waiting().position
    inbox.settle(late)
    inbox.settle(early)
    assert texts(inbox) == []


def test_a_place_of_another_inbox_moves_nothing(inbox: Inbox) -> None:
    inbox.put(letter(0))
    generation = inbox.waiting().position.generation
    for place in (
        InboxPosition("elsewhere", 10),
        InboxPosition(generation, 10**6),
        InboxPosition(generation, -5),
        InboxPosition(generation, 3),
    ):
        inbox.settle(place)
        assert texts(inbox) == ["letter 0"]
    assert receive(inbox) == ["letter 0"]
    inbox.put(letter(1))
    assert receive(inbox) == ["letter 1"]
    assert receive(inbox) == []


def test_only_so_many_are_taken_at_once(make: Make) -> None:
    inbox = make(MailSettings(look_letters=4))
    for number in range(10):
        inbox.put(letter(number))
    seen = inbox.waiting()
    assert (len(seen.letters), seen.has_more) == (4, True)
    inbox.settle(seen.position)
    assert len(inbox.waiting(("id-4",)).letters) == 4
    assert receive(inbox) == [f"letter {number}" for number in range(4, 10)]


def test_only_so_much_text_is_taken_at_once_but_always_a_letter(make: Make) -> None:
    inbox = make(MailSettings(look_chars=100))
    for number, length in enumerate((150, 60, 30, 20, 5)):
        inbox.put(letter(number, "x" * length))
    found = []
    while (seen := inbox.waiting()).letters:
        found.append([len(one.text) for one in seen.letters])
        inbox.settle(seen.position)
    assert found == [[150], [60, 30], [20, 5]]


def test_a_letter_that_is_none_is_refused_and_leaves_nothing(inbox: Inbox) -> None:
    """A4."""
    with pytest.raises(MailError):
        inbox.put(letter(0, "x" * 100_001))
    assert texts(inbox) == []


def test_threads_may_write_at_once(inbox: Inbox) -> None:
    """A5: two senders at once; the order of each is kept."""

    def write(sender: int) -> None:
        for number in range(10):
            inbox.put(letter(f"{sender}-{number}"))

    writers = [threading.Thread(target=write, args=(sender,)) for sender in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = receive(inbox)
    assert len(found) == 40
    for sender in range(4):
        assert [one for one in found if one.startswith(f"letter {sender}-")] == [
            f"letter {sender}-{number}" for number in range(10)
        ]


async def test_a_letter_rings(inbox: Inbox) -> None:
    with inbox.wakeup() as wakeup:
        waiter = asyncio.create_task(wakeup.wait(20))
        await asyncio.sleep(0)
        await asyncio.to_thread(inbox.put, letter(0))
        assert await waiter
        assert texts(inbox) == ["letter 0"]
        assert not await wakeup.wait(0.01)


async def test_a_ring_while_nobody_waits_is_heard_later(inbox: Inbox) -> None:
    with inbox.wakeup() as wakeup:
        inbox.put(letter(0))
        assert await wakeup.wait(20)


async def test_every_bell_at_an_inbox_rings(inbox: Inbox) -> None:
    with inbox.wakeup() as one, inbox.wakeup() as other:
        both = asyncio.gather(one.wait(20), other.wait(20))
        await asyncio.sleep(0)
        inbox.put(letter(0))
        assert await both == [True, True]


async def test_two_cannot_wait_at_one_bell(inbox: Inbox) -> None:
    with inbox.wakeup() as wakeup:
        waiter = asyncio.create_task(wakeup.wait(20))
        await asyncio.sleep(0)
        with pytest.raises(MailError, match="take another"):
            await wakeup.wait(20)
        wakeup.close()
        assert not await waiter


async def test_a_wait_that_is_cancelled_leaves_the_bell_as_it_was(inbox: Inbox) -> None:
    with inbox.wakeup() as wakeup:
        waiter = asyncio.create_task(wakeup.wait())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        inbox.put(letter(0))
        assert await wakeup.wait(20)


async def test_a_closed_bell_rings_no_more(inbox: Inbox) -> None:
    wakeup = inbox.wakeup()
    wakeup.close()
    wakeup.close()
    inbox.put(letter(0))
    assert not await wakeup.wait(20)


def test_a_bell_is_heard_in_one_loop_after_another(inbox: Inbox) -> None:
    with inbox.wakeup() as wakeup:
        for number in range(3):
            inbox.put(letter(number))
            assert asyncio.run(wakeup.wait(20))
            assert not asyncio.run(wakeup.wait(0.01))
