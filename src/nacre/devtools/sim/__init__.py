"""A provider on loopback that applies the real prompt-cache rules to the bytes it receives (P6).

Implements Anthropic's Messages API and OpenAI's chat completions; replies come from a script, a recorded
session or another provider.
"""

from nacre.devtools.sim.clock import SimClock
from nacre.devtools.sim.exchange import CacheRules
from nacre.devtools.sim.faults import Fault
from nacre.devtools.sim.log import Exchange
from nacre.devtools.sim.replies import (
    ReplySource,
    ScriptedReply,
    replies_from_messages,
    replies_from_provider,
)
from nacre.devtools.sim.script import parse_script, read_script
from nacre.devtools.sim.simulator import SimSettings, Simulator, serve

__all__ = [
    "CacheRules",
    "Exchange",
    "Fault",
    "ReplySource",
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
