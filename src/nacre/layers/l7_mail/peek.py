"""An inbox looked at by somebody else than its owner: nothing in it moves, and nothing is set aside (A3)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nacre.errors import MailError
from nacre.layers.l7_mail import mailbox_file as form
from nacre.layers.l7_mail.letter import Letter, parse
from nacre.store import disk


@dataclass(frozen=True, slots=True)
class Peeked:
    """What lies in an inbox."""

    received: tuple[Letter, ...] = ()
    """Those before the cursor, as far as the box still holds them."""
    waiting: tuple[Letter, ...] = ()
    unreadable: int = 0
    """Lines that are no letters."""


def peek(path: Path) -> Peeked:
    """All letters of an inbox, each once; a box that is not there is an empty one."""
    cursor_name = f"{form.named(path)}.cursor"
    try:
        with form.opened_folder(path.parent) as folder:
            box = form.open_file(folder, path.name, os.O_RDONLY)
            try:
                return _looked_through(box, form.read_cursor(folder, cursor_name))
            finally:
                os.close(box)
    except FileNotFoundError:
        return Peeked()
    except OSError as error:
        raise MailError(disk.explain(error, path)) from error


def _looked_through(box: int, cursor: form.Cursor) -> Peeked:
    size = os.fstat(box).st_size
    _, first = form.generation_of(box)
    start = form.start_of(box, size, cursor.place)
    received: dict[str, Letter] = {}
    waiting: dict[str, Letter] = {}
    unreadable = 0
    for line in form.lines(box, first, size):
        try:
            letter = parse(line.data) if line.data else None
        except MailError:
            unreadable += 1
            continue
        if letter is not None and letter.id not in received:
            (received if line.end <= start else waiting).setdefault(letter.id, letter)
    return Peeked(tuple(received.values()), tuple(waiting.values()), unreadable)
