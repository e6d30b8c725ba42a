"""Who takes part in a session: whoever opens one adds them, the session asks each in its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nacre.agents.privacy import Witness
from nacre.agents.riding import Extra, Rider
from nacre.messages.blocks import JsonObject
from nacre.messages.records import Said
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Request
from nacre.tools.base import Tool


@dataclass(kw_only=True, eq=False, repr=False)
class Company:
    """Lists of those who take part; empty ones change nothing."""

    tellers: list[Callable[[], Iterable[str]]] = field(default_factory=list)
    """Others that may have something to tell in a turn."""
    filters: list[Callable[[Said], Awaitable[tuple[Said, Sequence[Extra]]]]] = field(default_factory=list)
    """What words and results pass through before they are recorded; each says what it did to them."""
    riders: list[Rider] = field(default_factory=list)
    """Others that may have something to add to a message."""
    sifters: list[Callable[[Sequence[Extra]], Awaitable[Sequence[Extra]]]] = field(default_factory=list)
    """What everything that is added to the conversation passes through."""
    witness: Witness | None = None
    """Can tell whose words a text repeats; none where nobody listens."""
    marks: list[Callable[[View, Sequence[JsonObject]], Sequence[int]]] = field(default_factory=list)
    """Others that know ends worth a cache marker: how many messages stand before each (C31c)."""
    finishers: list[Callable[[Request, View], Request]] = field(default_factory=list)
    """Others that add what a provider takes beside the view; one view always makes the same bytes."""
    on_cancel: list[Callable[[], None]] = field(default_factory=list)
    """What to stop when a turn is cancelled."""
    on_heard: list[Callable[[], None]] = field(default_factory=list)
    """What begins once a reply is there, and somebody or some tool is waited for."""
    payers: list[Callable[[Usage, str], None]] = field(default_factory=list)
    """Others that are told of every payment, and whose prices count."""
    before_asking: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """What must come to rest before the next request."""
    before_stopping: list[Callable[[str, bool], Awaitable[Extra | None]]] = field(default_factory=list)
    """Others that may have a turn go on although its last reply calls no tool: what the model is told then.

    They get the reply's words, and whether the turn was made to go on before.
    """
    awaited: list[Callable[[], Awaitable[Sequence[Extra]]]] = field(default_factory=list)
    """Others that know of something to come which an answered turn waits for, and goes on with.

    The model itself has sent for it, so that this holds no turn up: only its rounds are counted.
    """
    before_words: list[Callable[[str], Awaitable[None]]] = field(default_factory=list)
    """Others that may refuse what a person says, by raising, before anything of it is recorded."""
    around_tools: list[Callable[[Mapping[str, Tool], str], Mapping[str, Tool]]] = field(default_factory=list)
    """Others that stand around tool calls; they get the tools, and the name of a fork's errand or none."""

    async def sifted(self, extras: Sequence[Extra]) -> Sequence[Extra]:
        """What is to be added, as it may be."""
        for passed in self.sifters:
            extras = await passed(extras)
        return extras

    def attended(self, tools: Mapping[str, Tool], fork: str = "") -> Mapping[str, Tool]:
        """The tools with everybody who stands around their calls; as they are where nobody does."""
        for stand in self.around_tools:
            tools = stand(tools, fork)
        return tools
