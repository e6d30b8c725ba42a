"""Ask, act, repeat: the query loop, its limits and its recovery.

Does not know that layers exist: the caller passes callbacks. May import providers, tools, messages.
"""

from nacre.loop.loop import LoopCallbacks, run
from nacre.loop.round import Limits

__all__ = ["Limits", "LoopCallbacks", "run"]
