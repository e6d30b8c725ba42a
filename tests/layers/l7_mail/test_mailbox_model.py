"""A mailbox against a model, whatever happens to it in whatever order (A3, A5)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nacre.layers.l7_mail.inbox import UnreadLetters
from nacre.layers.l7_mail.mailbox import Mailbox
from nacre.layers.l7_mail.policy import MailSettings
from tests.layers.l7_mail.letters import letter
from tests.scale import scaled

SMALL = MailSettings(look_letters=3, look_chars=200, anew_bytes=1_500)
JUNK = st.binary(min_size=1, max_size=40).filter(lambda data: b"\n" not in data)


class Boxes(RuleBasedStateMachine):
    """Senders and a receiver that write down what they know elsewhere, as sessions do."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "inboxes" / "bob.jsonl"
        self.box = Mailbox(self.path, settings=SMALL)
        self.sent: list[str] = []
        self.received: list[str] = []
        self.seen: UnreadLetters | None = None

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(text=st.text(max_size=120))
    def put(self, text: str) -> None:
        number = len(self.sent)
        self.box.put(letter(number, f"{number} {text}"))
        self.sent.append(f"id-{number}")

    @rule()
    def look(self) -> None:
        self.seen = self.box.waiting(self.received)

    @precondition(lambda self: self.seen is not None)
    @rule(settled=st.booleans())
    def take(self, settled: bool) -> None:
        """What was seen is written down first; whether the cursor follows is up to the kill."""
        assert self.seen is not None
        new = [one.id for one in self.seen.letters if one.id not in self.received]
        self.received += new
        if settled:
            self.box.settle(self.seen.position)
        self.seen = None

    @rule()
    def reopen(self) -> None:
        self.box = Mailbox(self.path, settings=SMALL)
        self.seen = None

    @rule(data=JUNK, ended=st.booleans())
    def spoil(self, data: bytes, ended: bool) -> None:
        """Somebody was killed in mid-write, or a disk made something up."""
        if self.path.exists() and self.path.read_bytes().endswith(b"\n"):
            with self.path.open("ab") as file:
                file.write(data + (b"\n" if ended else b""))

    @rule(data=st.none() | st.binary(max_size=60))
    def lose_the_cursor(self, data: bytes | None) -> None:
        cursor = self.path.with_name("bob.cursor")
        if data is None:
            cursor.unlink(missing_ok=True)
        elif self.path.parent.exists():
            cursor.write_bytes(data)

    @precondition(lambda self: self.path.exists())
    @rule()
    def lose_the_header(self) -> None:
        data = self.path.read_bytes()
        if data.startswith(b'{"inbox"'):
            self.path.write_bytes(b"#" + data[1:])

    @invariant()
    def what_was_received_is_what_was_sent_in_order_and_once(self) -> None:
        assert self.received == self.sent[: len(self.received)]

    @rule()
    def drain(self) -> None:
        """Nothing that was acknowledged is lost: a receiver that looks until there is no more has it all."""
        while True:
            seen = self.box.waiting(self.received)
            self.received += [one.id for one in seen.letters]
            self.box.settle(seen.position)
            if not seen.has_more:
                break
        self.seen = None
        assert self.received == self.sent


TestBoxes = Boxes.TestCase
TestBoxes.settings = settings(max_examples=scaled(200), stateful_step_count=50, deadline=None)
