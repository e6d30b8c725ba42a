"""`/model`, `/think` and `/mode`: which model answers, how it thinks, what needs no question."""

from __future__ import annotations

from nacre.agents.toolset import MEANS, MODES
from nacre.app.endings import Ending
from nacre.app.model_switch import (
    AUTO,
    checked_model,
    offered_models,
    set_thinking,
    thinking_line,
    warmth_note,
)
from nacre.app.open_agent import OpenedAgent
from nacre.cli.output import print_error, print_table, printable
from nacre.settings import Settings


def model(ready: OpenedAgent, settings: Settings, name: str) -> Ending:
    """`/model [NAME]`: continue with another model; without a name, list those with a key."""
    session = ready.agent.session
    if not name:
        for one in offered_models(session, settings.environ):
            print(printable(one.line))
        print("/model NAME continues with another one; `model` in settings.json, or `nacre init`, keeps it")
        return None
    if name == session.base.model:
        print(printable(f"{name} answers already"))
        return None
    return checked_model(name, session, settings.environ)


def think(ready: OpenedAgent, level: str) -> None:
    """`/think [LEVEL]`: let the model think more or less; without a level, show the one in force."""
    session = ready.agent.session
    if level:
        print("\n".join(set_thinking(session, level)))
        return
    print(thinking_line(session))
    levels = session.profile.thinking_levels
    if levels:
        print(f"/think {', /think '.join((*levels, AUTO))} change it for this chat")
        print(warmth_note(session))
    else:
        print(printable(f"{session.base.model} does not think"))


def mode(ready: OpenedAgent, wanted: str) -> None:
    """`/mode [NAME]`: change what the model may do without a question; without a name, list the modes."""
    modes = ready.modes
    found = [one for one in MODES if wanted and one.startswith(wanted.casefold())]
    if len(found) == 1:
        modes.set(found[0])
        print(f"{modes.mode}: {MEANS[modes.mode]}")
        return
    if wanted:
        print_error(f"no mode {wanted!r}; /mode lists them")
        return
    print_table([("●" if one == modes.mode else "", one, MEANS[one]) for one in MODES])
