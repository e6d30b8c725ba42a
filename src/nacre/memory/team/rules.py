"""What shared memory may contain: no secrets; for a team nothing personal, nothing unconfirmed from outside.

M16: secrets are never shared; M16b: untrusted memories need the user's consent; M18: memories about a person
are always private; M27: `local-only` files stay.
"""

from __future__ import annotations

import stat
from pathlib import Path

from nacre.errors import OutsideStore, StoreError
from nacre.memory.files.containment import topic_inside
from nacre.memory.files.folder import Folder
from nacre.memory.format.entry import Entry, read_entry
from nacre.memory.format.index import INDEX_FILE
from nacre.memory.secrets import find_in_name, find_secrets

PERSONAL = "is about a person, and what is about a person is always private"
UNTRUSTED = "came from outside and is not confirmed"
LOCAL_ONLY = "says `local-only: true`"


def refuse_for_team(file: str, data: bytes) -> None:
    """Raise `StoreError` if these bytes may not become a memory of the team."""
    if why := content_objection(data):
        raise StoreError(f"{file} {why}; take it out: the team's memory never holds such a thing")
    if why := sharing_objection(file, data):
        raise StoreError(f"{file} {why}; keep it in private memory")


def sharing_objection(file: str, data: bytes, *, with_team: bool = True) -> str:
    """Return why a file may not leave this machine; empty if it may.

    Without `with_team` it goes to another machine of the same person, which gets everything but credentials
    and `local-only` memories; what is unconfirmed stays marked so.
    """
    if why := content_objection(data):
        return why
    if findings := find_in_name(file):
        return f"holds {findings[0]}"
    if is_index(file):
        return ""
    why = entry_objection(read_entry(file, data))
    return why if with_team or why == LOCAL_ONLY else ""


def content_objection(data: bytes) -> str:
    """Return why these bytes may neither be sent nor received; empty if they may."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "is not UTF-8"
    if "\0" in text:
        return "holds NUL, which is no text"
    if findings := find_secrets(text):
        return f"holds {', '.join(map(str, findings))}"
    return ""


def entry_objection(entry: Entry) -> str:
    """Return why a memory may not be shared with the team; empty if it may."""
    if entry.local_only:
        return LOCAL_ONLY
    if entry.kind == "user":
        return PERSONAL
    return UNTRUSTED if not entry.is_trusted else ""


def name_objection(directory: Path, file: str) -> str:
    """Return why a file name is not allowed here; empty if it is; disguised names are refused."""
    try:
        key = Folder(directory).key(file)
        if not is_index(file):
            topic_inside(directory, file)
    except OutsideStore as error:
        return f"has no name for a memory: {error}"
    if key != file:
        return "leads elsewhere through a symlink"
    place = directory
    for part in Path(file).parts:
        place /= part
        try:
            mode = place.lstat().st_mode
        except OSError:
            continue
        if place == directory / file:
            return "" if stat.S_ISREG(mode) else "has the name of something here that is no file"
        if not stat.S_ISDIR(mode):
            return f"needs the folder {part}, and something else has that name here"
    return ""


def is_index(file: str) -> bool:
    return file.rpartition("/")[2] == INDEX_FILE
