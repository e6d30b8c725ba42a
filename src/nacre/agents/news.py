"""Attachments about agents: results of background agents, available types, running agents."""

from __future__ import annotations

from collections.abc import Sequence

from nacre import prompts
from nacre.agents.registry import AgentRegistry, AgentState
from nacre.agents.types import DESCRIPTION_CHARS, AgentTypes
from nacre.memory.format.entry import clipped, one_line
from nacre.messages.blocks import JsonObject
from nacre.messages.draft import Fragment
from nacre.messages.untrusted_text import neutralise
from nacre.messages.view import View
from nacre.session.attachments import Attachment, notes_in_view

AGENT = "agent"
"""Kind of the note that the result of an agent's run was reported: id, run, status."""
AGENT_TYPES = "agent_types"
"""Kind of the note that the model got the list of agent types: names."""
DONE = prompts.load(__package__, "agent_done")
TYPES = prompts.load(__package__, "agent_types")
SHOWN_CHARS = 200
"""Maximum length of a description in a line."""
ENDED = {
    "completed": "is done",
    "idle": "is done for now and waits",
    "failed": "has failed",
    "stopped": "did not finish",
    "stalled": "was stopped because it hung",
}


class AgentNews:
    """Attaches the results of background agents to the next message, each once."""

    def __init__(self, registry: AgentRegistry, owner: str) -> None:
        self._registry = registry
        self._owner = owner

    def extras(self) -> list[Attachment]:
        return [agent_news(state) for state in self._registry.states.values() if self._is_new(state)]

    def settle(self, view: View) -> None:
        """Mark the results that are in the log as reported."""
        for note in view.noted(AGENT):
            run = note.fact("run")
            agent = note.fact("id")
            for state in list(self._registry.states.values()):
                if state.id == agent and isinstance(run, int) and state.told < run:
                    self._registry.change(state.name, told=run)

    def _is_new(self, state: AgentState) -> bool:
        return state.owner == self._owner and state.is_untold


class AgentTypeUpdates:
    """Attaches the list of custom agent types, once an epoch."""

    def __init__(self, types: AgentTypes) -> None:
        listed = [
            f"- `{one.name}`: {clipped(one_line(neutralise(one.description)), DESCRIPTION_CHARS)}"
            for one in types.custom
        ]
        self._names = [one.name for one in types.custom]
        self.text = prompts.render(TYPES, types="\n".join(listed)) if listed else ""
        """Empty if all types are built in."""

    def extras(self, view: View) -> Sequence[Attachment]:
        """Return the list if the model does not see one."""
        if not self.text or notes_in_view(view, AGENT_TYPES):
            return ()
        return [Attachment(kind=AGENT_TYPES, text=self.text, facts={"names": [*self._names]})]


def agent_news(state: AgentState) -> Attachment:
    """Return the result of an agent as an attachment for its owner."""
    text = prompts.render(
        DONE,
        name=state.name,
        task=clipped(one_line(neutralise(state.description)), SHOWN_CHARS) or "no description",
        ended=ENDED.get(state.status, state.status),
        calls=f"{state.calls:,}",
        tokens=f"{state.tokens:,}",
        seconds=f"{state.seconds:,.0f}",
        result=neutralise(state.result),
    )
    facts: JsonObject = {"id": state.id, "run": state.run, "name": state.name, "status": state.status}
    notice = f"{state.name} {ENDED.get(state.status, state.status)}; its report goes to the model."
    return Attachment(kind=AGENT, text=text, facts=facts, notice=notice)


def registry_fragments(registry: AgentRegistry, owner: str) -> list[Fragment]:
    """Return running agents and outstanding reports for after a compaction, so that none is started twice."""
    states = [one for one in registry.states.values() if one.owner == owner]
    lines = [_line(one) for one in states if one.is_running or one.status == "idle" or one.is_untold]
    return [Fragment(kind="agents", name="the agents you started", text="\n".join(lines))] if lines else []


def _line(state: AgentState) -> str:
    task = clipped(one_line(neutralise(state.description)), SHOWN_CHARS)
    told = "its report comes in a later message" if state.is_running or state.is_untold else "waits"
    doing = f" ({one_line(state.doing)})" if state.doing else ""
    return f"- {state.name} ({state.type}): {task}; {state.status}{doing}, {told}"
