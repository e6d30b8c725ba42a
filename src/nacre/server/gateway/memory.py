"""Recall and extraction for clients that know nothing of them, on request (G4).

Memories are attached behind the newest message of the person, and again behind the same message in every
later request, so that the prefix never moves. Extraction reads the person's words after the turn, by rule.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nacre.app.extract_once import extract_by_rule
from nacre.app.memory_locations import memory_places
from nacre.app.recall_once import drift_of
from nacre.cache.warmth import HOUR
from nacre.clock import Clock
from nacre.context.privacy import OriginTracker
from nacre.errors import NacreError
from nacre.layers.l5_extract.judge import messages_since
from nacre.layers.l5_extract.policy import ExtractEnvironment, is_enabled
from nacre.memory.files.location import Location
from nacre.memory.memory import VECTORS_SECONDS, Memory
from nacre.memory.recall import usage
from nacre.memory.recall.base import Recalled, RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import AlreadySeen, recall, render_attachment, skip_reason
from nacre.messages.blocks import JsonObject, Text, ToolCall, ToolResult
from nacre.messages.events import Reply
from nacre.messages.foreign.requests import request_messages
from nacre.messages.records import ReplyFacts, Said
from nacre.messages.transcript import Transcript
from nacre.messages.view import View
from nacre.server.gateway.attachment_log import AttachedConversation, AttachedText, AttachmentLog
from nacre.server.gateway.person_messages import (
    PersonMessage,
    existing_directory,
    is_newest,
    is_side_request,
    listed_messages,
    person_messages,
    with_texts,
    working_directory,
)
from nacre.server.gateway.upstream import Api
from nacre.settings import Settings, load

_LOG = logging.getLogger("nacre.gateway")

RECALL_SECONDS = 3.0
"""How long recall may delay a request; it takes milliseconds once the index is read, and a reply seconds."""
DAY = 24 * HOUR
MAX_PROJECTS = 32
"""Projects whose indexes stay open."""
MAX_RESPONSES = 2_000
MAX_MESSAGES = 20
"""Messages of the person that one extraction reads at most."""
MAX_EXTRACTIONS = 16
"""Turns that wait for extraction; what another one says is read with the next turn of its conversation."""
END_SECONDS = 5.0
"""How long the end of the gateway waits for extractions; one that is cancelled is repeated as well."""
MAX_FAILURES = 3
"""Failed extractions in a row, after which the gateway makes no more for the project."""


@dataclass(slots=True)
class _Project:
    """The memories that apply to a client's project, or the person's own without one."""

    settings: Settings
    locations: Sequence[Location]
    target: Location
    """Where extraction saves."""
    indexes: Sequence[LocalIndex]
    extracting: asyncio.Lock = field(default_factory=asyncio.Lock)
    failures: int = 0

    @property
    def extracts(self) -> bool:
        """Whether the settings let memories be extracted."""
        given = self.settings.memory
        here = ExtractEnvironment(
            switch=self.settings.switches.extract is not False,
            is_kept=given.is_on,
            is_bare=given.simple,
            is_remote=given.remote,
            is_interactive=True,  # a person started the gateway and asked for it
            is_daily=given.mode == "daily",
        )
        return is_enabled(here, self.settings.extract)

    def recall(self, query: RecallQuery, already: AlreadySeen) -> Recalled:
        for index in self.indexes:
            index.refresh()
            index.deepen(seconds=VECTORS_SECONDS)
        switches = self.settings.switches
        drift = drift_of(self.settings) if switches.drift_check and len(self.locations) > 1 else None
        return recall(query, self.indexes, already=already, drift=drift)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTurn:
    """An answered request."""

    api: Api
    messages: Sequence[JsonObject]
    """As the client sent them."""
    reply: Reply | None
    """None for a reply that broke off."""
    response_id: str
    session: str
    on_saved: Callable[[int], None]
    """Called with the number of memories that were saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOutcome:
    """A request with its attachments."""

    body: JsonObject | None = None
    """None: nothing is attached, and the client's bytes pass unchanged."""
    recalled: int = 0
    """Memories that the newest message got."""
    project: _Project
    people: Sequence[PersonMessage]
    conversation: AttachedConversation
    seen: AlreadySeen
    is_side: bool
    problem: Exception | None = None
    """Why the newest message got no memories."""


class GatewayMemory:
    """The memories of one person, for all clients of a gateway."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._log = AttachmentLog(settings.home, clock)
        self._projects: OrderedDict[Path | None, _Project] = OrderedDict()
        self._held: OrderedDict[str, AlreadySeen] = OrderedDict()
        """What conversations hold that are kept at the provider, by their last reply."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()
        # The first message has no time for this import.
        import nacre.memory.recall.ranking.ranker  # noqa: F401, PLC0415

    async def attach(self, api: Api, body: JsonObject, project_name: str = "") -> MemoryOutcome | None:
        """Return the request with memories; None if the person says nothing in it.

        The project is the directory that the client names, or that its agent names to the model.
        """
        named = existing_directory(project_name)
        directory = named if project_name else working_directory(api, body)
        seed = json.dumps([str(directory), _conversation_id(body)]).encode()
        people = person_messages(api, body, seed)
        if not people:
            return None
        async with self._opening:
            project = await asyncio.to_thread(self._project, directory)
        conversation = self._log.conversation(people[0].link)
        async with conversation.attaching:
            newest = people[-1]
            is_side = is_side_request(api, body)
            recalled = 0
            problem: Exception | None = None
            seen = self._seen(body, people, conversation)
            if not is_side and self._is_due(api, body, newest, conversation):
                try:
                    found = await self._recalled(project, newest.text, seen)
                    self._attach(conversation, newest.link, found)
                    recalled = len(found.picks)
                except Exception as error:  # noqa: BLE001  earlier messages keep what they have
                    problem = error
                seen = self._seen(body, people, conversation)
            last = len(listed_messages(api, body)) - 1
            self._note_continued((one.link for one in people if one.index < last), conversation)
        there = {one.index: attached.text for one in people if (attached := conversation.texts.get(one.link))}
        texts = {index: text for index, text in there.items() if text}
        return MemoryOutcome(
            body=with_texts(api, body, texts) if texts else None,
            recalled=recalled,
            project=project,
            people=people,
            conversation=conversation,
            seen=seen,
            is_side=is_side,
            problem=problem,
        )

    def answered(self, outcome: MemoryOutcome, said: ClientTurn) -> None:
        """Remember what the provider holds, and extract once a turn has ended."""
        if said.response_id:
            self._held[said.response_id] = outcome.seen
            while len(self._held) > MAX_RESPONSES:
                self._held.popitem(last=False)
        is_over = said.reply is not None and not any(
            isinstance(block, ToolCall) for block in said.reply.message.blocks
        )
        has_room = len(self._tasks) < MAX_EXTRACTIONS
        if is_over and has_room and not outcome.is_side and outcome.project.extracts:
            task = asyncio.create_task(self._extract(outcome, said), name="gateway extraction")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait a moment for extractions, then cancel them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=END_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for project in self._projects.values():
            for index in project.indexes:
                await asyncio.to_thread(index.close)

    def _project(self, directory: Path | None) -> _Project:
        if (known := self._projects.get(directory)) is not None:
            return known
        settings = self._settings
        if directory is not None:
            settings = load(directory, self._settings.environ)
        places = memory_places(settings)
        locations = places.in_use if directory is not None else (places.user,)
        found = _Project(
            settings=settings,
            locations=locations,
            target=places.project if directory is not None else places.user,
            indexes=[LocalIndex(one.directory, one.cache, writes=one.cache.is_dir()) for one in locations],
        )
        self._projects[directory] = found
        while len(self._projects) > MAX_PROJECTS:
            _, oldest = self._projects.popitem(last=False)
            for index in oldest.indexes:
                index.close()
        return found

    def _seen(
        self, body: JsonObject, people: Sequence[PersonMessage], conversation: AttachedConversation
    ) -> AlreadySeen:
        """Return the memories that this history holds."""
        before = self._held.get(str(body.get("previous_response_id")), AlreadySeen(hides_local=True))
        sizes: dict[str, int] = {}
        for one in people:
            if (attached := conversation.texts.get(one.link)) is not None:
                sizes |= attached.files
        return AlreadySeen(
            paths=before.paths | frozenset(sizes),
            attached_bytes=before.attached_bytes + sum(sizes.values()),
            hides_local=True,  # requests leave the machine (M27)
        )

    def _is_due(
        self, api: Api, body: JsonObject, newest: PersonMessage, conversation: AttachedConversation
    ) -> bool:
        """Return whether memories are looked up for the newest message.

        They are not for a repeated request, whose cached prefix they would change; after an hour no cache is
        left, and the same words may begin another conversation. One that goes on with the same words keeps
        its prefix for a day.
        """
        if not is_newest(api, body, newest):
            return False
        if (known := conversation.texts.get(newest.link)) is None:
            return True
        now = self._clock.now().timestamp()
        continued = conversation.continued.get(newest.link, 0.0)
        return now - known.at > DAY or now - max(known.at, continued) > HOUR

    def _note_continued(self, links: Iterable[bytes], conversation: AttachedConversation) -> None:
        now = self._clock.now().timestamp()
        conversation.continued |= {link: now for link in links if link in conversation.texts}

    async def _recalled(self, project: _Project, text: str, seen: AlreadySeen) -> Recalled:
        settings = project.settings
        is_on = settings.memory.is_on and settings.switches.recall
        has_files = any(one.directory.is_dir() for one in project.locations)
        skipped = skip_reason(text, is_on=is_on, attached_bytes=seen.attached_bytes, has_files=has_files)
        if skipped:
            return Recalled(query=text, skipped=skipped)
        query = RecallQuery(text=text, now=self._clock.now())
        work = asyncio.create_task(asyncio.to_thread(project.recall, query, seen), name="gateway recall")
        done, _ = await asyncio.wait([work], timeout=RECALL_SECONDS)
        if not done:
            return Recalled(query=text, problem="the index is not ready yet")
        found = work.result()
        for location in project.locations:
            if events := usage.events_of(found, location, query.now):
                await usage.record(location, events)
        return found

    def _attach(self, conversation: AttachedConversation, link: bytes, found: Recalled) -> None:
        if not found.picks and link not in conversation.texts:
            return
        text = render_attachment(found.picks) if found.picks else ""
        files = {str(one.ranked.path): one.bytes for one in found.picks}
        self._log.attach(conversation, link, AttachedText(text, files, self._clock.now().timestamp()))

    async def _extract(self, outcome: MemoryOutcome, said: ClientTurn) -> None:
        project = outcome.project
        if project.failures >= MAX_FAILURES:
            return
        async with project.extracting:
            conversation = outcome.conversation
            new: list[PersonMessage] = []
            for one in reversed(outcome.people[-MAX_MESSAGES:]):
                if one.link in conversation.extracted:
                    break
                new.insert(0, one)
            if not new:
                return
            try:
                await self._save(project, new, said)
                self._log.mark_extracted(conversation, new[-1].link)
                project.failures = 0
            except (NacreError, OSError) as error:
                project.failures += 1
                _LOG.warning("no memory was extracted: %s", error)

    async def _save(self, project: _Project, new: Sequence[PersonMessage], said: ClientTurn) -> None:
        now = self._clock.now()
        new_id = self._clock.new_id
        records = [Said(id=new_id(), at=now, role="user", blocks=(Text(one.text),)) for one in new]
        for role, blocks in request_messages(said.api, said.messages[new[-1].index + 1 :]):
            facts = ReplyFacts() if role == "assistant" else None
            # What programs wrote in the person's name is not among the person's words.
            is_meta = role == "user" and not any(isinstance(block, ToolResult) for block in blocks)
            records.append(Said(id=new_id(), at=now, role=role, blocks=blocks, reply=facts, meta=is_meta))
        assert said.reply is not None, "the turn has ended"
        blocks = said.reply.message.blocks
        records.append(Said(id=new_id(), at=now, role="assistant", blocks=blocks, reply=ReplyFacts()))
        tracker = OriginTracker()
        tracker.attend(Transcript(records))
        # The client's prompt may hold text of anybody.
        tracker.has_outside_context = lambda: True
        heard = messages_since(View.of(records), None)
        if heard.quotes:
            settings = project.settings
            keeps_index = project.target.source == "user" or settings.memory.keeps_index
            memory = await Memory.at(project.target, settings.cwd, keeps_index=keeps_index)
            saved = await extract_by_rule(
                memory, heard, session=said.session, settings=settings, origins=tracker
            )
            for index in project.indexes:
                index.writes = True
            if saved.files or saved.removed:
                said.on_saved(len(saved.files))


def _conversation_id(body: JsonObject) -> str:
    """Return what tells two conversations with the same words apart, where the client sends such a thing."""
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    named = [user, *(body.get(name) for name in ("prompt_cache_key", "previous_response_id", "conversation"))]
    return json.dumps([one for one in named if one is not None])
