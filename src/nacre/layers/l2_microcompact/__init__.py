"""Layer 2, microcompaction: old tool results are cleared, when that costs nothing or pays.

Trigger: the provider's cache went cold, or nothing fits any more; switched on, arithmetic on a warm cache.
Cost: nothing but the files of what was cleared. Prefix: moves, from the first cleared result on (C9 to C12b).
"""

from nacre.layers.l2_microcompact.microcompact import CLEAR, Outcome, microcompact, pointer_tokens
from nacre.layers.l2_microcompact.pins import PIN, pin, pinned
from nacre.layers.l2_microcompact.policy import (
    CLAUDE_CODE,
    CLEARABLE,
    NACRE,
    Decision,
    MicrocompactSettings,
    Moment,
    due,
)

__all__ = [
    "CLAUDE_CODE",
    "CLEAR",
    "CLEARABLE",
    "NACRE",
    "PIN",
    "Decision",
    "MicrocompactSettings",
    "Moment",
    "Outcome",
    "due",
    "microcompact",
    "pin",
    "pinned",
    "pointer_tokens",
]
