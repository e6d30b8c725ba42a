"""When requests were made, as far as a log tells: with what stands before their replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from nacre.messages.records import Record, Said


def asked_at(records: Iterable[Record]) -> Iterator[tuple[Said, datetime]]:
    """Each reply, at the first of its records, with when it was asked for."""
    before: datetime | None = None
    reply_id: str | None = None
    for record in records:
        if not isinstance(record, Said) or record.aside is not None:
            continue
        if record.role != "assistant":
            before = record.at
            continue
        new_id = record.reply.id if record.reply else None
        if new_id is None or new_id != reply_id:
            yield record, before or record.at
        reply_id = new_id
