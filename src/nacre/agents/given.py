"""What a caller hands an agent, looked at before anything is opened: a mistake is told in one line."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from nacre.settings import Settings
from nacre.tools.base import Tool

Given = TypeVar("Given")
PORT = ("name", "capabilities", "stream", "count_tokens", "close")
"""What every provider has; `nacre.Provider` says what each is for."""


def check_given(settings: object, provider: object, tools: object, session: object) -> None:
    """Raise `TypeError` for what would fail far from where it was given."""
    if settings is not None and not isinstance(settings, Settings):
        raise TypeError(f"settings takes what nacre.settings.load returns, not {_shown(settings)}")
    if not isinstance(session, str):
        raise TypeError(f"session takes 'new', 'latest', 'unkept' or an id, not {_shown(session)}")
    if provider is not None:
        _check_provider(provider)
    if tools is not None and not _makes_tools(tools):
        check_tools(tools)


def check_tools(tools: Given) -> Given:
    """These tools; raises `TypeError` where they are none: functions that they could be made of are not."""
    if isinstance(tools, Tool) or not isinstance(tools, Collection):
        raise TypeError(f"tools takes a list of tools, not {_shown(tools)}; put it into one")
    for one in tools:
        if not isinstance(one, Tool):
            raise TypeError(
                f"{_shown(one)} is not a tool; decorate an async function with @nacre.tool to make it one"
            )
    return tools


def _check_provider(provider: object) -> None:
    if isinstance(provider, str):
        raise TypeError(
            f"provider takes an object, not {_shown(provider)}; leave it out and name a model in "
            "settings.json or in the variable NACRE_MODEL"
        )
    if isinstance(provider, type):
        raise TypeError(f"provider takes an object, not the class itself; write {provider.__name__}(…)")
    missing = [name for name in PORT if not hasattr(provider, name)]
    if missing:
        raise TypeError(f"{_shown(provider)} is not a provider: it has no {', '.join(missing)}")


def _makes_tools(tools: object) -> bool:
    """Whether this is a function that gets the usual tools; a single tool is no such function."""
    return callable(tools) and not isinstance(tools, Tool)


def _shown(value: object) -> str:
    """A word or a name as it is, anything else by its type: what it holds can be long."""
    if isinstance(value, str):
        return repr(value)
    name = getattr(value, "__name__", None)
    return str(name) if isinstance(name, str) else f"a {type(value).__name__}"
