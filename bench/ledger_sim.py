"""How long markers, ledger and cache simulation take on a session of 200 requests and 150,000 tokens.

The session is made up and the same every time; the median run stands for all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.machine import bar
from nacre.cache.breakpoints import place_markers
from nacre.cache.models import profile
from nacre.cache.prefix_monitor import Ledger, message_blocks, sent_request
from nacre.devtools.cache_models.anthropic_rules import simulate
from nacre.devtools.cache_models.anthropic_state import Cache, Call
from nacre.messages.blocks import JsonObject

MODEL = "claude-opus-5-5"
FINAL_TOKENS = 150_000
SYSTEM_TOKENS = 6_000
REPLY_TOKENS = 47
"""What a made-up reply holds beside the tool's answer."""
LIMIT_SECONDS = 2.0
"""What a whole session may take, so that a test can afford to simulate one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    requests: int = 200
    rounds: int = 5
    """Odd, so that there is a median."""

    @property
    def result_tokens(self) -> int:
        """What is left for a tool's answer once the reply around it is counted."""
        return (FINAL_TOKENS - SYSTEM_TOKENS) // self.requests - REPLY_TOKENS


FULL = Sizes()
TINY = Sizes(requests=3, rounds=1)


def measure(sizes: Sizes = FULL) -> JsonObject:
    runs = [_run(sizes) for _ in range(sizes.rounds)]
    middle = sorted(runs, key=_seconds)[sizes.rounds // 2]
    return {
        **middle,
        "seconds_of_each_run": [each["seconds_total"] for each in runs],
        "bars": [bar("the whole session, seconds", _seconds(middle), at_most=LIMIT_SECONDS)],
    }


def _seconds(figures: JsonObject) -> float:
    total = figures["seconds_total"]
    assert isinstance(total, float)
    return total


def _run(sizes: Sizes) -> JsonObject:
    model = profile(MODEL)
    system: list[JsonObject] = [{"type": "text", "text": "rule. " * (SYSTEM_TOKENS * 4 // 6)}]
    tools: list[JsonObject] = [{"name": f"tool{i}", "input_schema": {"type": "object"}} for i in range(10)]
    messages: list[JsonObject] = [{"role": "user", "content": [{"type": "text", "text": "begin"}]}]
    cache, ledger = Cache(), Ledger()
    account = sent_request(MODEL, system, tools, messages)
    spent = {"breakpoints": 0.0, "ledger": 0.0, "simulator": 0.0}
    read = written = divergences = 0
    cost = 0.0
    cpu = time.process_time()
    outcome = None
    for number in range(sizes.requests):
        started = time.perf_counter()
        head, defined, marked = place_markers(system, tools, messages, profile=model)
        placed = time.perf_counter()
        divergences += ledger.check(account) is not None
        ledger = ledger.after_request(account)
        checked = time.perf_counter()
        body: JsonObject = {
            "model": MODEL,
            "max_tokens": 1000,
            "system": head,
            "tools": defined,
            "messages": marked,
        }
        outcome = simulate(cache, Call(body=body, start=number * 20.0, output_tokens=60), profile=model)
        assert outcome.refusal is None, outcome.refusal
        simulated = time.perf_counter()
        cache = outcome.cache
        read, written = read + outcome.usage.cache_read, written + outcome.usage.cache_write
        cost += outcome.cost_usd or 0.0
        fresh = _round(number, sizes.result_tokens)
        messages.extend(fresh)
        grown = time.perf_counter()
        account = account.grown(message_blocks(fresh, len(messages) - len(fresh)))
        spent["breakpoints"] += placed - started
        spent["ledger"] += checked - placed + time.perf_counter() - grown
        spent["simulator"] += simulated - checked
    assert outcome is not None
    return {
        "requests": sizes.requests,
        "final_prompt_tokens": outcome.prompt_tokens,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "cost_usd": round(cost, 4),
        "divergences": divergences,
        "seconds": {name: round(value, 4) for name, value in spent.items()},
        "seconds_total": round(sum(spent.values()), 4),
        "cpu_seconds_total": round(time.process_time() - cpu, 4),
    }


def _round(number: int, tokens: int) -> list[JsonObject]:
    call = f"toolu_{number:04d}"
    words = f"line {number} of a file that nobody wrote, "
    answer = (words * (tokens * 4 // len(words) + 1))[: tokens * 4]
    return [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "what next? " * 10, "signature": f"sig{number}"},
                {"type": "text", "text": "I will read the next file."},
                {"type": "tool_use", "id": call, "name": "tool1", "input": {"path": f"src/file{number}.py"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": answer}]},
    ]
