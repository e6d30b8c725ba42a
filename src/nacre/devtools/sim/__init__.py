"""A provider on loopback that applies the real prompt-cache rules to the bytes it receives (P6).

Implements Anthropic's Messages API, OpenAI's chat completions and Responses; replies come from a script, a
recorded session or another provider.
"""

from nacre.devtools.sim.clock import SimClock
from nacre.devtools.sim.exchange import CacheRules, Exchange
from nacre.devtools.sim.faults import Fault
from nacre.devtools.sim.replies import (
    ReplySource,
    Script,
    ScriptedReply,
    parse_script,
    read_script,
    replies_from_messages,
    replies_from_provider,
)
from nacre.devtools.sim.simulator import SimSettings, Simulator, serve

__all__ = [
    "CacheRules",
    "Exchange",
    "Fault",
    "ReplySource",
    "Script",
    "ScriptedReply",
    "SimClock",
    "SimSettings",
    "Simulator",
    "parse_script",
    "read_script",
    "replies_from_messages",
    "replies_from_provider",
    "serve",
]
