"""What the ranker knows of a memory file: its generic fields, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

USER_ROLES = frozenset({"user", "human", "me"})
ASSISTANT_ROLES = frozenset({"assistant", "ai"})
ROLES = USER_ROLES | ASSISTANT_ROLES | {"system", "tool"}
"""Authors that are a part in a conversation, not a person's name."""


@dataclass(frozen=True, kw_only=True)
class Doc:
    """One memory file.

    `folder` and `order` place it among its neighbours (directory, then file order in it);
    `author` is whose words these are; a paragraph of `body` may name its own as "name: text".
    """

    id: str
    folder: str = ""
    order: int = 0
    when: date | None = None
    name: str = ""
    description: str = ""
    author: str = ""
    body: str = ""
