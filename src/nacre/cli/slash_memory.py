"""Slash commands for the memories a conversation was given: see them, correct one, forget one (Q6)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nacre.agents.extracting import WORK
from nacre.agents.recalled import in_view
from nacre.cli.output import print_error, printable
from nacre.errors import NacreError
from nacre.memory.entry import Change
from nacre.memory.undo import undo

if TYPE_CHECKING:
    from nacre.agents.extracting_keep import Kept
    from nacre.agents.opening import Ready
    from nacre.memory.directory import Memory


UNDO = "undo"
PATIENCE_SECONDS = 2.0
"""How long somebody who asks is kept waiting for what is under way: rules need far less, a model more."""


async def forget(ready: Ready, text: str) -> None:
    """`/forget N`: forget what stands at this place of the list; without a number the list."""
    found = _meant(ready, text)
    if found is None:
        return
    memory, file = found
    try:
        entry, commit = await memory.forget(file, _by_hand(ready, "forgotten in a chat"))
    except NacreError as error:
        print_error(str(error))
        return
    print(printable(f"forgot {entry.file}: {' '.join(entry.body.split())}"))
    print(f"`nacre memory undo {commit[:10]}` brings it back; this conversation has still read it")


async def correct(ready: Ready, text: str) -> None:
    """`/correct N TEXT`: let it say something else from now on."""
    number, _, words = text.partition(" ")
    found = _meant(ready, number)
    if found is None:
        return
    if not words.strip():
        print_error(f"say what it should say instead: /correct {number} TEXT")
        return
    memory, file = found
    try:
        saved = await memory.correct(
            file, words.strip(), _by_hand(ready, "corrected in a chat"), origin="user"
        )
    except NacreError as error:
        print_error(str(error))
        return
    print(printable(f"corrected {saved.entry.file}; `nacre memory undo {saved.commit[:10]}` takes it back"))


async def saved_last(ready: Ready, text: str) -> None:
    """`/memory`: what was drawn from the conversation last; `/memory undo` takes it back (E6)."""
    extracting = ready.extracting
    if extracting is None:
        print("memories are not drawn from this conversation (see the setting extract.mode)")
        return
    if not await ready.background.wait(WORK, PATIENCE_SECONDS):
        print("still at it: what was said last is being looked through")
    left = extracting.last
    if left is None:
        print("no memory was drawn from this conversation yet")
    elif text == UNDO:
        await _taken_back(ready, left)
    else:
        print(printable(left.line))


async def _taken_back(ready: Ready, left: Kept) -> None:
    if left.is_proposed:
        print_error("nothing was saved yet: `nacre memory review` accepts or rejects what was found")
        return
    change = _by_hand(ready, "what was drawn from a conversation, taken back in a chat")
    for memory, commit in left.where:
        try:
            await undo(memory.location, commit, change=change, clock=memory.clock, watch=memory.watch)
        except NacreError as error:
            print_error(str(error))
            return
    print(printable(f"took back {', '.join(left.files)}; this conversation has still read them"))


def _meant(ready: Ready, number: str) -> tuple[Memory, str] | None:
    """The memory at a place of the list; otherwise the list is shown."""
    paths = in_view(ready.agent.session.view)
    if not paths:
        print("no memory was given to this conversation yet")
        return None
    if not (number.isdecimal() and 1 <= int(number) <= len(paths)):
        for place, path in enumerate(paths, 1):
            print(printable(f"{place:3} {path.name}"))
        print("/forget N forgets one, /correct N TEXT lets it say something else")
        return None
    return _where(ready, paths[int(number) - 1])


def _where(ready: Ready, path: Path) -> tuple[Memory, str] | None:
    # The team's folder is inside the other: the longest directory that fits is meant.
    fitting = [one for one in ready.memories if path.is_relative_to(one.location.directory)]
    if not fitting:
        print_error(f"{path} is in no memory of this session")
        return None
    memory = max(fitting, key=lambda one: len(one.location.directory.parts))
    return memory, path.relative_to(memory.location.directory).as_posix()


def _by_hand(ready: Ready, reason: str) -> Change:
    return Change(author="user", reason=reason, session=ready.agent.session.id)
