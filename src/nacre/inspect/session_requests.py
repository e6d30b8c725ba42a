"""The requests of a session from its log: price, cache, what layers did, and the view each had (C34)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from nacre.cache.models import cost, profile
from nacre.inspect.context_usage import ATTACHMENTS, BlockKinds
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.pairing import Item, ItemPart
from nacre.messages.records import Noted, Record, Said, Undone
from nacre.messages.usage import Usage
from nacre.messages.view import View
from nacre.messages.wire import render_blocks
from nacre.session.layer_decisions import decisions
from nacre.session.meter import SIDE_QUERY

EventKind: TypeAlias = Literal[
    "offloaded", "cleared", "compacted", "attached", "restored", "undone", "background"
]
"""What happened before a request; the first five also mark blocks of a view."""
_EVENTS: Mapping[str, EventKind] = {
    "offload": "offloaded", "clear": "cleared", "compact": "compacted", "recall": "attached",
    "notes": "background", "extract": "background", "dream": "background", "keep_warm": "background",
}  # fmt: skip
"""Kind of event by layer of a decision."""
_MARKS: Mapping[str, EventKind] = {
    "offloaded": "offloaded", "cleared": "cleared", "summary": "compacted", "notes": "compacted",
    "restored": "restored",
}  # fmt: skip
"""Mark by kind of content; attachments have a mark of their own."""
COLD_SHARE = 0.5
"""A request that read less than this share of the one before found its cache cold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent:
    """One thing that happened between two requests."""

    kind: EventKind
    what: str
    """The layer's reason, the kind of attachment, or the purpose of a background request."""
    tokens: int = 0
    cost_usd: float | None = None

    def as_json(self) -> JsonObject:
        return {"kind": self.kind, "what": self.what, "tokens": self.tokens, "cost_usd": self.cost_usd}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """One request of the conversation and its reply."""

    number: int
    """From 1."""
    place: int
    """Index of the first record of its reply."""
    replies: tuple[Said, ...]
    """The records of its reply."""
    view: View
    """What the model saw."""
    tokens: int
    pause_seconds: float | None
    """Seconds since the reply before; None for the first request."""
    events: tuple[RequestEvent, ...]
    changed_at: int | None
    """The first block that differs from the request before; None if that is the beginning of this one."""
    reason: str
    """Why: the names of the rewrites, `model`, or empty."""
    is_cold: bool
    """The provider read much less from its cache than the request before had written or read."""

    @property
    def model(self) -> str:
        return next((one.reply.model for one in self.replies if one.reply and one.reply.model), "")

    @property
    def usage(self) -> Usage | None:
        """What the provider reported; of a split reply with the last record."""
        found = [one.reply.usage for one in self.replies if one.reply and one.reply.usage]
        return found[-1] if found else None

    @property
    def cost_usd(self) -> float | None:
        return cost(profile(self.model), self.usage) if self.usage else None

    def as_json(self) -> JsonObject:
        usage = self.usage
        first = self.replies[0]
        return {
            "request": self.number,
            "at": first.at.isoformat(),
            "model": self.model,
            "tokens": usage.prompt if usage else self.tokens,
            "cost_usd": self.cost_usd,
            "usage": usage_json(usage),
            "cache_share": round(usage.hit_rate, 4) if usage and usage.prompt else None,
            "pause_seconds": self.pause_seconds,
            "events": [one.as_json() for one in self.events],
            "changed_at": self.changed_at,
            "changed_path": None if self.changed_at is None else self.view.path(self.changed_at),
            "reason": self.reason,
            "is_cold": self.is_cold,
        }


def request_places(records: Sequence[Record]) -> list[int]:
    """Return where each reply of the conversation begins; records with one reply id are one reply."""
    places: list[int] = []
    last = ""
    for place, one in enumerate(records):
        if not isinstance(one, Said) or one.role != "assistant" or one.aside or _is_ours(one):
            continue
        reply_id = (one.reply.id if one.reply else None) or ""
        if not reply_id or reply_id != last:
            places.append(place)
        last = reply_id
    return places


def _is_ours(said: Said) -> bool:
    """Whether a program wrote this in the model's name, so that it answered no request."""
    return said.meta


def session_requests(records: Sequence[Record]) -> list[SessionRequest]:
    """Return the requests of a log, oldest first, each with the view of its moment."""
    found: list[SessionRequest] = []
    places = request_places(records)
    view = View()
    start = 0
    for number, place in enumerate(places, 1):
        new = records[start:place]
        view = view.after(*new)
        end = places[number] if number < len(places) else len(records)
        first = records[place]
        assert isinstance(first, Said), "request_places returns replies"
        replies = tuple(_replies(records[place:end], first))
        before = found[-1] if found else None
        changed_at, reason = _change(before, view, replies)
        found.append(
            SessionRequest(
                number=number,
                place=place,
                replies=replies,
                view=view,
                tokens=view.count(),
                pause_seconds=(first.at - before.replies[-1].at).total_seconds() if before else None,
                events=tuple(_events(new)),
                changed_at=changed_at,
                reason=reason,
                is_cold=_is_cold(before, replies),
            )
        )
        start = place
    return found


def _replies(records: Iterable[Record], first: Said) -> Iterator[Said]:
    reply_id = first.reply.id if first.reply else None
    for one in records:
        if not isinstance(one, Said) or one.role != "assistant" or one.aside:
            continue
        if one is first or (reply_id and one.reply and one.reply.id == reply_id):
            yield one


def _change(before: SessionRequest | None, view: View, replies: Sequence[Said]) -> tuple[int | None, str]:
    """Return the first block that differs from the last request, and the reason."""
    if before is None:
        return None, ""
    model = next((one.reply.model for one in replies if one.reply and one.reply.model), "")
    if model and before.model and model != before.model:
        return 0, "model"
    old, new = before.view.links, view.links
    shared = min(len(old), len(new))
    if not shared or old[shared - 1] == new[shared - 1]:
        place = None if len(old) <= len(new) else shared
    else:
        place = bisect_left(range(shared), True, key=lambda n: old[n] != new[n])
    rewrites = view.epochs[len(before.view.epochs) :]
    return place, ", ".join(dict.fromkeys(rewrites)) if place is not None else ""


def _is_cold(before: SessionRequest | None, replies: Sequence[Said]) -> bool:
    usage = next((one.reply.usage for one in reversed(replies) if one.reply and one.reply.usage), None)
    last = before.usage if before else None
    if usage is None or last is None:
        return False
    cached = last.cache_read + last.cache_write
    return bool(cached) and usage.cache_read < cached * COLD_SHARE


def _events(records: Sequence[Record]) -> Iterator[RequestEvent]:
    """Yield what happened in these records, in the order of the log by kind."""
    for one in decisions(records):
        if one.layer != "keep_warm":
            what = "memory" if one.layer == "recall" else one.reason
            what = f"{one.layer}: {what}" if _EVENTS[one.layer] == "background" else what
            yield RequestEvent(kind=_EVENTS[one.layer], what=what, tokens=one.tokens)
    ours = {one.id for one in records if isinstance(one, Said) and one.meta}
    for record in records:
        match record:
            case Noted(kind=kind) if kind in ATTACHMENTS and kind != "recalled":
                if record.fact("record") in ours or record.fact("inside"):
                    yield RequestEvent(kind="attached", what=ATTACHMENTS[kind])
            case Noted(kind=kind) if kind == SIDE_QUERY:
                usage = Usage.of_json(record.fact("usage"))
                price = cost(profile(str(record.fact("model"))), usage)
                purpose = str(record.fact("purpose") or "unnamed")
                yield RequestEvent(kind="background", what=purpose, tokens=usage.total, cost_usd=price)
            case Undone():
                yield RequestEvent(kind="undone", what="undone")
            case _:
                pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBlock:
    """One block of a request, with its mark."""

    place: int
    """Its index among all blocks of the request."""
    role: str
    block: JsonObject
    """As it was sent."""
    kind: str
    """Kind of content, as in `nacre context`."""
    tokens: int
    mark: EventKind | None = None
    state: Literal["same", "added", "removed"] = "same"
    """Compared with the request before."""

    def as_json(self) -> JsonObject:
        return {
            "place": self.place,
            "role": self.role,
            "block": self.block,
            "kind": self.kind,
            "tokens": self.tokens,
            "mark": self.mark,
            "state": self.state,
        }


def view_blocks(view: View) -> list[ViewBlock]:
    """Return the blocks of a view in the order of the request, with their marks."""
    kinds = BlockKinds.of(view)
    # The wire form of a block is one object, in the item and in the message.
    by_wire: dict[int, tuple[Item, ItemPart]] = {
        id(part.wire): (item, part) for item in view.items for part in item.parts
    }
    found: list[ViewBlock] = []
    for message in view.messages:
        content = message["content"]
        assert isinstance(content, list), "a view renders lists of blocks"
        for block in content:
            assert isinstance(block, dict), "a view renders blocks"
            item, part = by_wire.get(id(block), (None, None))
            kind = kinds.of_part(item, part) if item and part else "other"
            mark = _MARKS.get(kind) or ("attached" if kind in kinds.attachments else None)
            if part is not None and mark is None and kinds.has_attachment_inside(part):
                mark = "attached"
            found.append(
                ViewBlock(
                    place=len(found),
                    role=str(message["role"]),
                    block=block,
                    kind=kind,
                    tokens=part.tokens if part else 0,
                    mark=mark,
                )
            )
    return found


def compared(request: SessionRequest, before: SessionRequest | None) -> list[ViewBlock]:
    """Return the blocks of a request, with those that the request before had and this one has not."""
    now = view_blocks(request.view)
    if before is None:
        return [_with_state(one, "added") for one in now]
    old = view_blocks(before.view)
    first = request.changed_at if request.changed_at is not None else len(old)
    first = min(first, len(old), len(now))
    found = now[:first]
    keys_old = [_key(one) for one in old[first:]]
    keys_new = [_key(one) for one in now[first:]]
    matcher = SequenceMatcher(None, keys_old, keys_new, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            found += now[first + j1 : first + j2]
            continue
        found += [_with_state(one, "removed") for one in old[first + i1 : first + i2]]
        found += [_with_state(one, "added") for one in now[first + j1 : first + j2]]
    return found


def _key(one: ViewBlock) -> str:
    return f"{one.role}\0{one.block!r}"


def _with_state(one: ViewBlock, state: Literal["same", "added", "removed"]) -> ViewBlock:
    return ViewBlock(
        place=one.place, role=one.role, block=one.block, kind=one.kind, tokens=one.tokens, mark=one.mark,
        state=state,
    )  # fmt: skip


def usage_json(usage: Usage | None) -> JsonObject | None:
    """Return the tokens of a reply; None if they are unknown."""
    if usage is None:
        return None
    return {
        "input": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output": usage.output,
    }


def reply_json(request: SessionRequest) -> list[Json]:
    """Return the blocks of the reply."""
    return [block for one in request.replies for block in render_blocks(one.blocks)]
