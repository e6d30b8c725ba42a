"""One line on what an agent is doing now: every so often from a cheap model, and by rule without one (A7).

The model is asked beside everything else: it shares no cache with the agent, gets the end of its conversation
as text and no tools. It is asked only where somebody named one; whatever goes wrong, the rule stands in.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from nacre import prompts
from nacre.agents.activity import doing, shown
from nacre.errors import NacreError
from nacre.loop.fork import RequestSource
from nacre.messages.events import REFUSAL, Reply, StartedOver
from nacre.messages.text import as_text
from nacre.messages.untrusted_text import neutralise
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.providers.base import Provider, Request
from nacre.session.meter import metered

PURPOSE: RequestSource = "agent_summary"
"""Under which name the questions are booked."""


TAIL_TOKENS = 4_000
"""Of the agent's conversation: what is done now shows in the last few rounds (A7)."""


MAX_OUTPUT_TOKENS = 256
"""A line has a dozen; the rest is for models that think before they answer."""


ANSWER_SECONDS = 20.0
"""A line that comes later than this is about something else by then."""


RULE_SECONDS = 1.0
"""Between two looks by rule: as often as a person looks, and nothing is paid for it."""


MAX_WORDS = 12
"""More is no line but an explanation, and is dropped."""


_SYSTEM = prompts.load(__package__, "progress")


_ASK = prompts.load(__package__, "progress_ask")


_TAG = re.compile(r"<(?=\s*/?\s*agent-work)", re.IGNORECASE)


_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


_PARTICIPLE = re.compile(r"[A-Z][a-z-]*ing\b", re.IGNORECASE)
"""How every right answer begins; a refusal, an apology or a chat does not."""


_MARKS = "`*_\"'“”‘’"


@dataclass(frozen=True, slots=True, kw_only=True)
class Onlooker:
    """The cheap model that says what agents do."""

    provider: Provider
    model: str
    pay: Callable[[Usage, str], None]
    """Told what each question cost."""
    allows: Callable[[str], str | None]
    """Says why nothing more may be paid for."""
    leaves: bool = True
    """What it is told leaves the machine."""


class Progress:
    """Watches agents, each in a task of its own."""

    def __init__(self, seconds: float, onlooker: Onlooker | None = None) -> None:
        """`seconds` lie between two questions about one agent."""
        self._seconds = seconds
        self._onlooker = onlooker

    async def watch(
        self, look: Callable[[], View], tell: Callable[[str], None], *, stays: bool = False
    ) -> None:
        """Tell each new line on one agent until cancelled, which is to be done when the agent ends.

        `stays`: what this agent was told must not leave the machine (M27).
        """
        line = _Line(tell)
        async with asyncio.TaskGroup() as watching:
            watching.create_task(self._by_rule(look, line), name="progress by rule")
            if self._onlooker is not None and not (stays and self._onlooker.leaves):
                asking = self._by_model(self._onlooker, look, line)
                watching.create_task(asking, name="progress by model")

    async def _by_rule(self, look: Callable[[], View], line: _Line) -> None:
        while True:
            if not line.is_models:
                line.say(doing(look()))
            await asyncio.sleep(min(RULE_SECONDS, self._seconds))

    async def _by_model(self, onlooker: Onlooker, look: Callable[[], View], line: _Line) -> None:
        """One question after another, none while nothing has changed; an agent that ends soon costs none."""
        told: list[bytes] = []
        while True:
            await asyncio.sleep(self._seconds)
            view = look()
            newest = list(view.links[-1:])
            if newest == told:
                continue
            told = newest
            answer = await _answer(onlooker, view)
            line.is_models = bool(answer)
            line.say(answer or doing(look()))


class _Line:
    """What was told last, and who said it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.is_models = False
        self._tell = tell
        self._last = ""

    def say(self, text: str) -> None:
        if text != self._last:
            self._last = text
            self._tell(text)


async def _answer(onlooker: Onlooker, view: View) -> str:
    """What the model says is being done; nothing where it cannot be asked or does not answer the question."""
    if onlooker.allows(PURPOSE) is not None:
        return ""
    request = summary_request(view, onlooker.model)
    asked = metered(
        onlooker.provider.stream(request),
        Usage(input=TAIL_TOKENS, approximate=True),
        lambda usage: onlooker.pay(usage, onlooker.model),
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS), aclosing(asked) as events:
            async for event in events:
                match event:
                    case Reply():
                        onlooker.pay(event.usage, event.model or onlooker.model)
                        return said(event)
                    case StartedOver(usage=Usage() as wasted):
                        onlooker.pay(wasted, onlooker.model)
                    case _:
                        pass
    except (NacreError, TimeoutError):
        pass  # nobody waits for it, and the rule says something as well
    return ""


def summary_request(view: View, model: str) -> Request:
    """The side query: the end of the conversation as text, and no tools."""
    work = _TAG.sub("&lt;", neutralise(as_text(view, tokens=TAIL_TOKENS)))
    text = prompts.render(_ASK, work=work)
    return Request(
        model=model,
        system=[{"type": "text", "text": _SYSTEM}],
        messages=[{"role": "user", "content": [{"type": "text", "text": text}]}],
        max_tokens=MAX_OUTPUT_TOKENS,
    )


def said(reply: Reply) -> str:
    """The line of an answer as it may be shown; empty where the answer is none."""
    text = _COLOURS.sub("", reply.message.text).strip()
    first = text.splitlines()[0] if text else ""
    bare = first.translate(dict.fromkeys(map(ord, _MARKS[:2]), None)).strip(_MARKS + " ").rstrip(".…!")
    is_line = _PARTICIPLE.match(bare) and len(bare.split()) <= MAX_WORDS
    return shown(bare) if is_line and reply.stop_reason != REFUSAL else ""
