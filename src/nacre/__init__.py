"""Memory and context management for LLM agents.

These names are the public API; each is loaded when it is first used, so that `import nacre` is fast.
"""

from nacre.version import VERSION

TYPE_CHECKING = False
"""Type checkers take this name as true; importing it from `typing` doubles the time `--version` takes."""

if TYPE_CHECKING:
    from nacre.app.agent import Agent
    from nacre.app.open_agent import open_agent
    from nacre.app.open_memory import open_memory
    from nacre.context.recall import Recall
    from nacre.errors import NacreError, ToolError
    from nacre.layers.l1_offload.layer import Offload
    from nacre.layers.l2_microcompact.layer import Microcompact
    from nacre.layers.l3_notes.layer import Notes
    from nacre.layers.l4_compact.layer import Compact
    from nacre.layers.l5_extract.layer import Extract
    from nacre.memory.format.entry import Entry
    from nacre.memory.memory import Memory
    from nacre.messages.events import Notice, TextDelta, ToolCallEvent, ToolResultEvent, TurnDone
    from nacre.providers.base import Provider
    from nacre.session.agent import RunResult
    from nacre.session.layer import Layer
    from nacre.session.session import Base, Session
    from nacre.tools.base import Tool, tool

__version__ = VERSION

__all__ = [
    "Agent",
    "Base",
    "Compact",
    "Entry",
    "Extract",
    "Layer",
    "Memory",
    "Microcompact",
    "NacreError",
    "Notes",
    "Notice",
    "Offload",
    "Provider",
    "Recall",
    "RunResult",
    "Session",
    "TextDelta",
    "Tool",
    "ToolCallEvent",
    "ToolError",
    "ToolResultEvent",
    "TurnDone",
    "open_agent",
    "open_memory",
    "tool",
]

_MODULES = {
    "Agent": "nacre.app.agent",
    "Base": "nacre.session.session",
    "Compact": "nacre.layers.l4_compact.layer",
    "Entry": "nacre.memory.format.entry",
    "Extract": "nacre.layers.l5_extract.layer",
    "Layer": "nacre.session.layer",
    "Memory": "nacre.memory.memory",
    "Microcompact": "nacre.layers.l2_microcompact.layer",
    "NacreError": "nacre.errors",
    "Notes": "nacre.layers.l3_notes.layer",
    "Notice": "nacre.messages.events",
    "Offload": "nacre.layers.l1_offload.layer",
    "Provider": "nacre.providers.base",
    "Recall": "nacre.context.recall",
    "RunResult": "nacre.session.agent",
    "Session": "nacre.session.session",
    "TextDelta": "nacre.messages.events",
    "Tool": "nacre.tools.base",
    "ToolCallEvent": "nacre.messages.events",
    "ToolError": "nacre.errors",
    "ToolResultEvent": "nacre.messages.events",
    "TurnDone": "nacre.messages.events",
    "open_agent": "nacre.app.open_agent",
    "open_memory": "nacre.app.open_memory",
    "tool": "nacre.tools.base",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'nacre' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - `nacre --version` does without it

    return getattr(import_module(_MODULES[name]), name)
