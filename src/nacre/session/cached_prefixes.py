"""What the provider has in its cache of a session's requests.

Some APIs report the input of a request only with the end of its reply. The cost of a reply that broke off is
estimated from the earlier requests: the longest of them that a request begins with is read from the cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from nacre.cache.models import ModelProfile
from nacre.cache.warmth import FIVE_MINUTES
from nacre.messages.blocks import Block, JsonObject, Thinking, ToolResult
from nacre.messages.records import Noted, Record, Said
from nacre.messages.tokens import estimate_blocks
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.messages.wire import parse_content
from nacre.session.base_change import BASE, base_key
from nacre.session.meter import SIDE_QUERY, UNFINISHED

TOUCHED = "touched"
"""The fact of a note that says that a fork's request renewed the session's cached prefix."""
PREFIX = "prefix"
"""The fact of a note on an unfinished reply with the digest of the messages of its request."""

RECENT_REQUESTS = 8
"""How many requests are compared block by block; of earlier ones only the whole is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRequest:
    """A request that the provider has read."""

    base: str
    """The key of its model, system prompt and tools."""
    link: bytes
    """The digest of its messages."""
    blocks: int
    """How many blocks these have."""
    tokens: int
    at: datetime
    """When it, or the last one that read it from the cache, was sent."""


class CachedPrefixes:
    """The accepted requests of one session; those of an earlier process are read from its log."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._log: Sequence[Record] = records
        """Read when it is first needed, because few replies break off."""
        self._accepted: dict[tuple[str, bytes], AcceptedRequest] = {}
        self._recent: deque[tuple[AcceptedRequest, View]] = deque(maxlen=RECENT_REQUESTS)

    def add(self, base: str, view: View, tokens: int, at: datetime) -> None:
        """Note that the provider has read a request for this view."""
        links = view.links
        if not links:
            return
        last = self._last
        if last is not None and last.base == base and links[min(last.blocks, len(links)) - 1] == last.link:
            self.renew(at)
        request = AcceptedRequest(base=base, link=links[-1], blocks=len(links), tokens=tokens, at=at)
        self._recent.append((request, view))
        self._accepted[base, request.link] = request

    def renew(self, at: datetime) -> None:
        """Note that the last request was read from the cache, which keeps it from expiring."""
        if (last := self._last) is not None:
            self._accepted[last.base, last.link] = replace(last, at=at)

    @property
    def _last(self) -> AcceptedRequest | None:
        return self._recent[-1][0] if self._recent else None

    def read_tokens(self, base: str, view: View, rules: ModelProfile, *, now: datetime, head: int) -> int:
        """Return how many tokens of a request for this view are read from the cache.

        `head` are those of system prompt and tools, which every request with this base begins with.
        """
        self._read_log()
        lifetime = rules.ttl_seconds or FIVE_MINUTES
        live = {
            one.link: one.tokens
            for one in self._accepted.values()
            if one.base == base and (now - one.at).total_seconds() < lifetime
        }
        if not live:
            return 0
        links = view.links
        ends = reversed(list(_ends(view.messages, rules)))
        whole = next((end for end in ends if links[end - 1] in live), 0)
        found = live[links[whole - 1]] if whole else 0
        if rules.cache == "intervals":
            # Also a part of a request is read, up to the first block that differs.
            shared = (
                estimate_blocks(_shared(view, other, rules, first=whole))
                for one, other in self._recent
                if one.link in live
            )
            found = max(found, head) + max(shared, default=0)
            interval = max(1, rules.interval)
            found = found // interval * interval
        return found if found >= rules.min_cacheable else 0

    def unfinished_facts(self, usage: Usage, model: str) -> JsonObject:
        """Return the facts of a note on a reply that broke off; the log tells later that it was cached."""
        facts: JsonObject = {"purpose": UNFINISHED, "model": model, "usage": usage.as_json()}
        last = self._last
        if last is not None and last.tokens == usage.prompt:
            facts[PREFIX] = last.link.hex()
        return facts

    def _read_log(self) -> None:
        """Add the answered requests of the log; what this process has seen since is newer."""
        earlier = CachedPrefixes(())
        view = View()
        asked: datetime | None = None
        for record in self._log:
            match record:
                case Said(aside=None, role="assistant") if record.reply and record.reply.usage:
                    base = view.last_noted(BASE)
                    if base is not None and not view.has_reply(record.reply.id or ""):
                        tokens = record.reply.usage.prompt
                        earlier.add(base_key(base.facts), view, tokens, asked or record.at)
                case Said(aside=None):
                    asked = record.at
                case Noted(kind=kind) if kind == SIDE_QUERY and record.fact(TOUCHED) is True:
                    earlier.renew(record.at)
                case Noted(kind=kind) if kind == SIDE_QUERY and record.fact(PREFIX):
                    earlier._add_unfinished(record, view.last_noted(BASE))
                case _:
                    pass
            view = view.after(record)
        self._log = ()
        self._accepted = earlier._accepted | self._accepted
        self._recent = deque([*earlier._recent, *self._recent], maxlen=RECENT_REQUESTS)

    def _add_unfinished(self, note: Noted, base: Noted | None) -> None:
        if base is None:
            return
        with suppress(ValueError):  # a damaged log
            key = (base_key(base.facts), bytes.fromhex(str(note.fact(PREFIX))))
            tokens = Usage.of_json(note.fact("usage")).prompt
            self._accepted[key] = AcceptedRequest(
                base=key[0], link=key[1], blocks=0, tokens=tokens, at=note.at
            )


def expected_usage(tokens: int, read: int, rules: ModelProfile) -> Usage:
    """Return the input usage of a request of this size of which so many tokens are read from the cache."""
    read = 0 if rules.cache == "none" else min(tokens, read)
    written = tokens - read if rules.cache_markers or rules.cache == "boundaries" else 0
    return Usage(input=tokens - read - written, cache_read=read, cache_write=written, approximate=True)


def _shared(view: View, other: View, rules: ModelProfile, *, first: int) -> list[Block]:
    """Return the blocks from `first` on that are equal in two requests, like all blocks before them.

    Thinking that the model is shown in one of them only ends that; thinking that it is shown in neither is
    left out.
    """
    links = view.links
    others = other.links
    most = min(len(links), len(others))
    # Each digest contains those before it.
    count = next((count for count in range(most, 0, -1) if links[count - 1] == others[count - 1]), 0)
    blocks = [block for message in view.messages for block in parse_content(message["content"])]
    prompt = _last_prompt(view.messages)
    other_prompt = _last_prompt(other.messages)
    shared: list[Block] = []
    for place, block in enumerate(blocks[:count]):
        if rules.strips_old_thinking and isinstance(block, Thinking):
            if place < min(prompt, other_prompt):
                continue
            if prompt != other_prompt:
                break
        if place >= first:
            shared.append(block)
    return shared


def _last_prompt(messages: Sequence[JsonObject]) -> int:
    """Return the place of the last block in which the user says something."""
    last = 0
    place = 0
    for message in messages:
        for block in parse_content(message["content"]):
            if message["role"] != "assistant" and not isinstance(block, ToolResult):
                last = place
            place += 1
    return last


def _ends(messages: Sequence[JsonObject], rules: ModelProfile) -> Iterator[int]:
    """Yield how many blocks end where the provider can read an earlier request from its cache.

    Some models read at the ends of messages only, so that a message that was continued is read anew. To
    others earlier thinking is no longer shown, so that no request that had it can be read.
    """
    behind_thinking: list[int] = []
    has_thinking = False
    place = 0
    for message in messages:
        content = message["content"]
        blocks = content if isinstance(content, list) else []
        kinds = [str(block.get("type")) if isinstance(block, dict) else "" for block in blocks]
        is_reply = message["role"] == "assistant"
        has_thinking = has_thinking or (is_reply and rules.strips_old_thinking and "thinking" in kinds)
        for kind, after in zip(kinds, [*kinds[1:], ""], strict=True):
            place += 1
            if is_reply:
                continue
            if kind != "tool_result":
                behind_thinking.clear()
                has_thinking = False
            if not after or (kind == "tool_result" != after) or rules.cache != "boundaries":
                if has_thinking:
                    behind_thinking.append(place)
                else:
                    yield place
    yield from behind_thinking
