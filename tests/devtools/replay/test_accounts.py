"""The fast books of a replay say what the simulator says, request by request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.cache.breakpoints import place_markers
from nacre.cache.models import profile
from nacre.devtools.cache_models import anthropic_rules, openai_rules
from nacre.devtools.cache_models.anthropic_render import estimate
from nacre.devtools.cache_models.anthropic_state import Cache, Call
from nacre.devtools.replay.costs import accounts
from nacre.devtools.replay.schema import WireRequest
from nacre.messages.blocks import JsonObject
from nacre.providers.openai_translate import translate_messages
from tests.scale import scaled

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ANTHROPIC = ("claude-opus-5-5", "claude-haiku-5-5", "claude-opus-4-1", "claude-sonnet-4-5")
OPENAI = ("gpt-6", "gpt-5.5")
Deed = Literal["go on", "clear", "compact", "wait", "long wait", "picture", "swap lifetime", "beside"]
DEEDS: tuple[Deed, ...] = (
    "go on", "go on", "go on", "clear", "compact", "wait", "long wait", "picture", "swap lifetime", "beside"
)  # fmt: skip


class Talk:
    """A conversation that grows and is rewritten; blocks that stay are the same objects."""

    def __init__(self) -> None:
        self.messages: list[JsonObject] = [_user({"type": "text", "text": "Begin with src/a.py. " * 300})]
        self.at = START
        self.lifetime: Literal["5m", "1h", "mixed"] = "5m"
        self.count = 0

    def act(self, deed: Deed) -> None:
        self.count += 1
        self.at += timedelta(seconds={"wait": 290, "long wait": 4_000}.get(deed, 7))
        match deed:
            case "clear":
                self.messages = [_cleared(message) for message in self.messages]
            case "compact":
                self.messages = [_user({"type": "text", "text": f"Summary {self.count}. " * 200})]
            case "picture":
                source: JsonObject = {"type": "base64", "media_type": "image/png", "data": "eA=="}
                self._round({"type": "image", "source": source})
            case "swap lifetime":
                self.lifetime = {"5m": "1h", "1h": "mixed", "mixed": "5m"}[self.lifetime]  # type: ignore[assignment]
            case _:
                self._round()

    def _round(self, *more: JsonObject) -> None:
        call_id = f"call_{self.count}"
        thinking: JsonObject = {
            "type": "thinking",
            "thinking": f"Hm {self.count}.",
            "signature": f"s{self.count}",
        }
        call: JsonObject = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"n": self.count}}
        result: JsonObject = {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": f"out {self.count} " * 500,
        }
        self.messages = [
            *self.messages,
            {"role": "assistant", "content": [thinking, call]},
            _user(result, *more),
        ]

    def sent(self, model: str) -> WireRequest:
        system: list[JsonObject] = [{"type": "text", "text": "You are careful. " * 400}]
        marked, tools, messages = place_markers(
            system, [], self.messages, profile=profile(model), ttl=self.lifetime
        )
        return WireRequest(at=self.at, system=marked, tools=tools, messages=messages)


def _user(*blocks: JsonObject) -> JsonObject:
    return {"role": "user", "content": [*blocks]}


def _cleared(message: JsonObject) -> JsonObject:
    content = message["content"]
    assert isinstance(content, list)
    if not any(isinstance(block, dict) and block["type"] in {"tool_result", "thinking"} for block in content):
        return message
    kept: list[JsonObject] = []
    for block in content:
        assert isinstance(block, dict)
        if block["type"] == "tool_result":
            kept.append({**block, "content": "[cleared]"})
        elif block["type"] != "thinking":
            kept.append(block)
    return {**message, "content": [*kept]}


@pytest.mark.parametrize("model", ANTHROPIC)
@settings(max_examples=scaled(25), deadline=None)
@given(deeds=st.lists(st.sampled_from(DEEDS), min_size=1, max_size=25))
def test_the_fast_books_say_what_the_simulated_provider_says(model: str, deeds: list[Deed]) -> None:
    """P6, P7: append, clear, compact, mixed lifetimes, pictures, idle gaps, requests beside it."""
    rules, books, cache, talk = profile(model), accounts(profile(model)), Cache(), Talk()
    for deed in deeds:
        talk.act(deed)
        sent = talk.sent(model)
        body: JsonObject = {"system": [*sent.system], "messages": [*sent.messages], "max_tokens": 100}
        call = Call(body=body, start=sent.at.timestamp(), output_tokens=40)
        outcome = anthropic_rules.simulate(cache, call, profile=rules, count=estimate)
        assert outcome.refusal is None
        cache = outcome.cache
        bill = books.bill(sent, 40, is_side=deed == "beside")
        assert bill.usage == outcome.usage
        assert bill.cost_usd == pytest.approx(outcome.cost_usd or 0.0)


@pytest.mark.parametrize("model", OPENAI)
@settings(max_examples=scaled(15), deadline=None)
@given(deeds=st.lists(st.sampled_from(DEEDS), min_size=1, max_size=15))
def test_the_books_of_an_openai_model_are_the_simulators(model: str, deeds: list[Deed]) -> None:
    rules, books, cache, talk = profile(model), accounts(profile(model)), Cache(), Talk()
    for deed in deeds:
        talk.act(deed)
        sent = talk.sent(model)
        body: JsonObject = {"messages": [*translate_messages(sent.system, sent.messages)]}
        call = Call(body=body, start=sent.at.timestamp(), output_tokens=40)
        outcome = openai_rules.simulate(cache, call, profile=rules)
        cache = outcome.cache
        bill = books.bill(sent, 40)
        assert bill.usage == outcome.usage
        assert bill.usage.prompt > 0


def test_a_rewrite_is_told_from_growth_and_a_request_beside_is_compared_with_nothing() -> None:
    """C32: `broke` is about bytes of the conversation's last request."""
    books, talk = accounts(profile("claude-opus-5-5")), Talk()
    assert not books.bill(talk.sent("claude-opus-5-5"), 1).broke
    talk.act("go on")
    grown = talk.sent("claude-opus-5-5")
    assert not books.bill(grown, 1).broke
    other = WireRequest(at=grown.at, messages=[_user({"type": "text", "text": "Sum it up."})])
    books.bill(other, 1, is_side=True)
    talk.act("picture")
    assert not books.bill(talk.sent("claude-opus-5-5"), 1).broke
    talk.act("clear")
    assert books.bill(talk.sent("claude-opus-5-5"), 1).broke


def test_thinking_behind_a_changed_past_is_noticed_where_the_model_binds_it() -> None:
    """C12b: clearing a result while thinking behind it stays is what such a model refuses."""
    for model, refuses in (("claude-opus-5-5", True), ("claude-opus-4-6", False)):
        books, talk = accounts(profile(model)), Talk()
        talk.act("go on")
        talk.act("go on")
        assert not books.bill(talk.sent(model), 1).unbound
        first = talk.messages[2]
        content = first["content"]
        assert isinstance(content, list)
        assert isinstance(content[0], dict)
        talk.messages[2] = {**first, "content": [{**content[0], "content": "[cleared]"}]}
        assert books.bill(talk.sent(model), 1).unbound is refuses
