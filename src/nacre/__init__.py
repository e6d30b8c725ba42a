"""Memory and context management for LLM agents: seven thin layers, cheapest first.

The names below are the public ones; each is loaded when first used, so that `import nacre` costs nothing.
"""

from nacre.version import VERSION

TYPE_CHECKING = False
"""Type checkers take this name as true; importing it from `typing` doubles the time `--version` takes."""

if TYPE_CHECKING:
    from nacre.app.open_agent import open_agent
    from nacre.app.open_memory import open_memory
    from nacre.memory.memory import Memory
    from nacre.messages.transcript import Transcript
    from nacre.messages.view import View
    from nacre.providers.base import Provider, Request
    from nacre.session.agent import Agent
    from nacre.session.session import Base, Session
    from nacre.tools.base import Tool, tool

__version__ = VERSION

__all__ = [
    "Agent",
    "Base",
    "Memory",
    "Provider",
    "Request",
    "Session",
    "Tool",
    "Transcript",
    "View",
    "open_agent",
    "open_memory",
    "tool",
]

_HOMES = {
    "Agent": "nacre.session.agent",
    "Base": "nacre.session.session",
    "Memory": "nacre.memory.memory",
    "Provider": "nacre.providers.base",
    "Request": "nacre.providers.base",
    "Session": "nacre.session.session",
    "Tool": "nacre.tools.base",
    "Transcript": "nacre.messages.transcript",
    "View": "nacre.messages.view",
    "open_agent": "nacre.app.open_agent",
    "open_memory": "nacre.app.open_memory",
    "tool": "nacre.tools.base",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'nacre' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - nobody who only asks for the version needs it

    return getattr(import_module(_HOMES[name]), name)
