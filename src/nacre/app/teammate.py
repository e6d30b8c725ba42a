"""A teammate in its own process: waits for letters, runs a turn for them, and reports.

A crash loses nothing: started again under its name, it resumes its session, which contains the received
letters, and reads those that wait in its mailbox (A3, A5).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import replace

from nacre import prompts
from nacre.agents.directory import team_of
from nacre.agents.mail_room import MailRoom
from nacre.agents.process_teammates import (
    DEPTH,
    FAILED,
    HELD,
    OWNER,
    REPORT,
    RETRY_SECONDS,
    ROOT,
    SPENT,
)
from nacre.agents.registry import AgentRegistry
from nacre.agents.run import NOTHING_SAID, OUT_OF_ROUNDS, WOKEN, bounded
from nacre.agents.team_roster import Roster
from nacre.agents.tools import NAME as TEAM_TASKS
from nacre.agents.types import INHERIT, SMALL, AgentType, agent_types
from nacre.agents.waking import first_of, is_from_person
from nacre.app.build_toolset import keep_loaded
from nacre.app.open_agent import NEW, SYSTEM, OpenedAgent, open_agent
from nacre.errors import ConfigError, MailError, NacreError, SpendCapReached, TranscriptError
from nacre.layers.l7_mail.inbox import Inbox
from nacre.layers.l7_mail.layer import MAIL, DeliveryLimit
from nacre.layers.l7_mail.letter import MAIN, Letter, brief, check_name
from nacre.layers.l7_mail.mailbox import Mailbox, MailboxContent, peek
from nacre.layers.l7_mail.send_message import NAME as SEND
from nacre.layers.l7_mail.wakeup import Wakeup
from nacre.messages.blocks import JsonObject
from nacre.messages.events import Event, Notice, TurnDone
from nacre.messages.records import Noted, Record, Said
from nacre.providers.choose import choose, small_model
from nacre.session.background import Background
from nacre.session.session import Base
from nacre.settings import Settings
from nacre.store.sessions import Sessions
from nacre.tools.base import Tool

FRAME = prompts.load(__package__, "teammate")
NAMED = prompts.load(__package__, "teammate_name")
REPORTED = "reported"
"""Kind of the note about the reply that was reported to the lead: reply."""


def _no_lead(event: Event) -> None:
    return None


@asynccontextmanager
async def open_teammate(
    settings: Settings,
    name: str,
    team: str,
    *,
    kind: str,
    model: str = "",
) -> AsyncIterator[Teammate]:
    """Join a team within the block; a name that was used before resumes its session.

    `model` overrides that of its type.
    """
    name = check_name(name)
    roster = team_of(settings.home, team)
    old = roster.member(name)
    if old is not None and roster.is_alive(old):
        raise MailError(f"{name} is taken in team {team}: process {old.pid}; choose another name")
    known = agent_types(settings).types
    if kind not in known:
        raise ConfigError(f"there is no kind of agent named {kind!r}; known are {', '.join(sorted(known))}")
    receiver = _receiver(roster, settings.environ)
    one = known[kind]
    async with open_agent(
        _settings_of(one, settings, model or one.model),
        tools=lambda usual: _tools(one, usual),
        session=_session(settings, old.session if old else ""),
    ) as ready:
        if ready.mail is None:
            raise ConfigError("agents are switched off here (switches.agents), so there are no teammates")
        if ready.team is not None:
            _limit_depth(ready.team.shared.registry, settings.environ)
        await _share_limits(ready.background, roster, name, settings)
        session = ready.agent.session
        session.base = _base(session.base, f"{one.prompt}\n\n{prompts.render(FRAME, receiver=receiver)}")
        session.is_one_shot = True
        await ready.mail.become(name, roster, kind)
        yield Teammate(ready, ready.mail, roster, receiver, chars=settings.agents.result_chars)


class Teammate:
    """A member of a team in its own process."""

    def __init__(
        self, ready: OpenedAgent, room: MailRoom, roster: Roster, receiver: str, *, chars: int
    ) -> None:
        """`receiver` gets the reports, besides the lead, who also notifies the person of limits."""
        self.ready = ready
        self.hear: Callable[[Event], None] = _no_lead
        """Called with all events of its turns."""
        self._agent = ready.agent
        self._session = ready.agent.session
        self._room = room
        self._roster = roster
        self._receiver = receiver
        self._chars = chars
        self._since = self._session.clock.now()
        self._wakeups: dict[Inbox, Wakeup] = {}
        self._wakes = DeliveryLimit()
        self._prompted_at = roster.prompted_at()
        room.mailing.may_deliver = self._may_deliver

    @property
    def name(self) -> str:
        return self._room.teams.name

    async def serve(self, prompt: str = "") -> None:
        """Run turns for letters until it agrees to shut down or a person requests it."""
        with ExitStack() as held:
            self._watch_inboxes(held)
            await self._report()
            if not self._session.is_opened:
                words = prompts.render(
                    NAMED, name=self.name, team=self._roster.team, lead=self._roster.lead()
                )
                await self._session.add_user(words, is_persons=False)
            if prompt:
                await self._turn(prompt)
            elif _is_owed(self._session.transcript.records):
                await self._turn(None)
            while not self._room.post.is_leaving and not await self._obeys():
                self._watch_inboxes(held)
                if await self._may_wake():
                    await self._session.add_user(WOKEN, is_persons=False)
                    await self._turn(None)
                else:
                    await self._on_wakeup()

    def _watch_inboxes(self, held: ExitStack) -> None:
        """Take a wakeup of each inbox, also of teams that it began since; before its letters are read."""
        for inbox in self._room.mailing.inboxes:
            if inbox not in self._wakeups:
                self._wakeups[inbox] = held.enter_context(inbox.wakeup())

    async def _may_wake(self) -> bool:
        """Whether letters may start a turn; notifies the lead if not."""
        new = self._wakes.new(await self._room.mailing.waiting())
        if not new:
            return False
        await self._on_user_message()
        if self._wakes.allows(new):
            self._wakes.woken()
            return True
        if not self._wakes.is_notified:
            self._wakes.is_notified = True
            self.hear(Notice(self._wakes.reasons[0].format(name=self.name), "warning"))
        why = f"{self.name}: {self._wakes.reasons[1]}."
        await self._report(why, prefix=HELD)
        return False

    async def _may_deliver(self, letters: Sequence[Letter]) -> bool:
        """Whether letters may be attached in the running turn; otherwise the lead is notified after it."""
        await self._on_user_message()
        return self._wakes.delivers(letters)

    async def _on_user_message(self) -> None:
        """Reset the delivery limits after a person's input to the team."""
        if (at := self._roster.prompted_at()) != self._prompted_at:
            self._prompted_at = at
            self._wakes.reset()
            await self._room.heard_person()

    async def _turn(self, text: str | None) -> None:
        """Run a turn to its end or to a person's shutdown request, and report to the lead."""
        playing = asyncio.create_task(self._played(text), name=f"turn of {self.name}")
        try:
            while not playing.done():
                await first_of(_ended(playing), self._on_wakeup())
                if not playing.done() and await self._obeys():
                    return
        finally:
            playing.cancel()
            await asyncio.wait({playing})
        try:
            await self._report(playing.result(), prefix=FAILED)
        except SpendCapReached as error:
            await self._report(str(error), prefix=SPENT)

    async def _played(self, text: str | None) -> str:
        """Run a turn and return why it did not complete; empty if it did."""
        outcome = "answered"
        try:
            async with aclosing(self._agent.stream(text)) as events:
                async for event in events:
                    self.hear(event)
                    if isinstance(event, TurnDone):
                        outcome = event.outcome
        except SpendCapReached:
            raise
        except NacreError as error:
            return f"It failed: {' '.join(str(error).split())}"
        return "" if outcome != "turn_limit" else OUT_OF_ROUNDS.format(rounds=self._agent.limits.max_rounds)

    async def _on_wakeup(self) -> None:
        await first_of(*(wakeup.wait(RETRY_SECONDS) for wakeup in self._wakeups.values()))

    async def _obeys(self) -> bool:
        """Whether a person requests a shutdown; answers the request."""
        known = self._room.mailing.known()
        for inbox in self._room.mailing.inboxes:
            letters: Sequence[Letter] = ()
            with suppress(MailError):  # read again with the next wakeup
                letters = (await asyncio.to_thread(inbox.waiting, known)).letters
            wishes = [one for one in letters if is_from_person(one) and one.at >= self._since]
            if wishes:
                with suppress(MailError):
                    await self._room.post.send(
                        wishes[-1].sender, "", kind="shutdown_response", approves=True, answers=wishes[-1].id
                    )
                return True
        return False

    async def _report(self, failure: str = "", *, prefix: str = REPORT) -> None:
        """Send the result of a turn to the agent that waits for it, each reply once even after a crash."""
        receivers = {self._receiver} | ({self._roster.lead()} if prefix in {HELD, SPENT} else set())
        receivers -= {"", self.name}
        clock = self._session.clock
        reply = _last_reply(self._session.transcript.records)
        last = self._session.view.last_noted(REPORTED)
        is_told = reply is None or (last is not None and last.fact("reply") == reply.id)
        if not receivers or (is_told and not failure):
            return
        said = failure or (reply.message.text if reply else "") or NOTHING_SAID
        folder = getattr(self._session.writer, "folder", None)
        letter = Letter(
            id=f"{prefix}{clock.new_id()}" if failure or reply is None else f"{REPORT}{reply.id}",
            sender=self.name,
            to=MAIN,
            text=bounded(said, f"{self.name}-report", folder, self._chars),
            summary=brief(said.strip().partition("\n")[0]),
            answers=await asyncio.to_thread(self._last_received),
            at=clock.now(),
        )
        for name in sorted(receivers):
            box = Mailbox(self._roster.inbox_path(name))
            await asyncio.to_thread(box.put, replace(letter, to=name))
        facts: JsonObject = {"reply": reply.id if reply else ""}
        await self._session.transcript.append(
            Noted(id=clock.new_id(), at=clock.now(), kind=REPORTED, facts=facts)
        )

    def _last_received(self) -> str:
        """Return the id of the last letter in its inbox that the transcript has; empty if there is none."""
        known = self._room.mailing.known()
        found = MailboxContent()
        with suppress(MailError):
            found = peek(self._roster.inbox_path(self.name))
        letters = [letter.id for letter in (*found.received, *found.waiting) if letter.id in known]
        return letters[-1] if letters else ""


def _receiver(roster: Roster, environ: Mapping[str, str]) -> str:
    """Return the member that started this process; without one, the lead."""
    owner = environ.get(OWNER, "")
    return next((one.name for one in roster.members() if owner and one.session == owner), roster.lead())


async def _ended(task: asyncio.Task[str]) -> None:
    await asyncio.wait({task})


def _base(base: Base, words: str) -> Base:
    """Return the base with the system prompt of its type."""
    texts = (str(block["text"]).replace(SYSTEM, words, 1) for block in base.system)
    blocks: list[JsonObject] = [{"type": "text", "text": text} for text in texts]
    return Base(base.model, blocks, base.tools, opening=base.opening)


def _limit_depth(registry: AgentRegistry, environ: Mapping[str, str]) -> None:
    """Apply the depth limit of the session that started this process."""
    depth = environ.get(DEPTH, "")
    registry.root, registry.depth = environ.get(ROOT, ""), int(depth) if depth.isdecimal() else 0


async def _share_limits(background: Background, roster: Roster, name: str, settings: Settings) -> None:
    """Count towards the spending limits of the session at the top; without one, of the lead's session."""
    lead = roster.member(roster.lead())
    owner = settings.environ.get(OWNER, "") or (lead.session if lead else "")
    root = settings.environ.get(ROOT, "") or owner
    if background.spending is None or not root:
        return
    with suppress(TranscriptError):
        folder = Sessions(settings.home).find(root).with_suffix("")
        background.agent_name = name
        background.spending.join(folder, name=name, owner=owner)
        await background.spending.settle()


def _is_owed(records: Sequence[Record]) -> bool:
    """Whether the transcript ends with messages or results that were not answered."""
    for one in reversed(records):
        if isinstance(one, Noted) and one.kind == MAIL:
            return True
        if isinstance(one, Said) and one.aside is None and not one.meta:
            return one.role == "user"
    return False


def _last_reply(records: Sequence[Record]) -> Said | None:
    """Return the last reply of the last turn, if the turn has ended."""
    for one in reversed(records):
        if isinstance(one, Said) and one.aside is None:
            is_answer = one.role == "assistant" and not one.message.tool_calls
            return one if is_answer else None
    return None


def _session(settings: Settings, before: str) -> str:
    """Return the earlier session of this name, so that received letters are known, or a new one."""
    if not before:
        return NEW
    try:
        Sessions(settings.home).find(before)
    except TranscriptError:
        return NEW
    return before


def _settings_of(kind: AgentType, settings: Settings, named: str) -> Settings:
    """Return the settings with the model and round limit of the agent type."""
    if named == SMALL:
        named = settings.small_model or small_model(choose(settings.model, settings.environ))
    model = settings.model if named in {"", INHERIT} else named
    return replace(settings, model=model, max_turns=kind.max_turns or settings.max_turns)


def _tools(kind: AgentType, usual: Sequence[Tool]) -> list[Tool]:
    # A teammate writes letters and takes tasks all the time.
    offered = [one for one in usual if kind.may_call(one.name) or one.name == SEND]
    return keep_loaded(offered, frozenset({SEND, TEAM_TASKS}))
