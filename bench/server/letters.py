"""A process that sends letters to an inbox in a database, or takes them from it; killed at any moment."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from nacre.layers.l7_mail.letter import Letter
from nacre.layers.l7_mail.shared_inbox import SharedInbox
from nacre.store.postgres.database import Database
from nacre.store.postgres.letter_rows import LetterRows

WAIT_SECONDS = 0.05


def main(address: str, tenant: str, user: str, folder: str, kind: str, number: str, count: str) -> None:
    inbox = SharedInbox(LetterRows(Database(address), tenant, user, f"session-{number}"))
    (_send if kind == "send" else _receive)(inbox, Path(folder), number, int(count))


def _send(inbox: SharedInbox, folder: Path, number: str, count: int) -> None:
    """Send letters in order; after a kill from the one that may not have been sent, by the same id."""
    noted = folder / f"next-{number}"
    for letter in range(int(noted.read_text(encoding="ascii")) if noted.exists() else 0, count):
        id_ = f"{number}-{letter}"
        at = datetime.now(UTC)
        inbox.put(Letter(id=id_, sender="bench", to="main", at=at, text=f"Letter {id_}"))
        _replace(noted, str(letter + 1))
    (folder / f"sent-{number}").touch()


def _receive(inbox: SharedInbox, folder: Path, number: str, count: int) -> None:
    """Note each letter before it is settled, as a transcript does, and pass those that are noted already."""
    path = folder / f"log-{number}"
    known = set(path.read_text(encoding="ascii").split()) if path.exists() else set()
    with path.open("a", encoding="ascii") as log:
        while len(known) < count:
            found = inbox.waiting(known)
            for one in found.letters:
                log.write(f"{one.id}\n")
                log.flush()
                known.add(one.id)
            inbox.settle(found.position)
            if not found.letters:
                time.sleep(WAIT_SECONDS)
    (folder / f"received-{number}").touch()


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text, encoding="ascii")
    new.replace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
