"""What `nacre doctor` says about worktrees of agents whose process is gone."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from nacre.cli.doctor_check import Check, note
from nacre.settings import Settings

if TYPE_CHECKING:
    from nacre.agents.worktree import Leftover

NAME = "worktrees"


def worktree_checks(settings: Settings) -> list[Check]:
    """Which there are and what removes them; nothing is changed."""
    if not (settings.home / NAME).is_dir():
        return []
    import asyncio

    from nacre.agents.worktree import leftovers

    found = asyncio.run(leftovers(settings.home))
    empty = [one for one in found if one.left is None]
    notes = [note(NAME, _kept(one)) for one in found if one.left is not None]
    if empty:
        count = f"{len(empty):,} worktree{'s' * (len(empty) != 1)}"
        words = f"{count} of agents that are gone, with nothing in them; remove them with: nacre gc --yes"
        notes.insert(0, note(NAME, words))
    return notes


def _kept(one: Leftover) -> str:
    """What is in it, and the commands that remove it once nobody needs that any more."""
    assert one.left is not None
    tree = one.record.tree
    git = f"git -C {shlex.quote(str(tree.repository))}"
    away = f"{git} worktree remove --force {shlex.quote(str(tree.path))} && {git} branch -D {tree.branch}"
    return f"{one.left.told}; once you have what you need of it: {away}"
