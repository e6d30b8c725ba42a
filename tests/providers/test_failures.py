"""What refusals mean (Q3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nacre.errors import InvalidRequest, Overloaded, PromptTooLong, ProviderError, ThinkingMismatch
from nacre.providers.failures import ProviderRefusal, error_of, retry_after


class NewYear:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, 0, 0, 0, tzinfo=UTC)

    def seconds(self) -> float:
        return 0.0

    def new_id(self) -> str:
        return "id"

    def chance(self) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 31 Dec 2025 23:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "soon"}, None),
    ],
)
def test_the_wait_a_provider_asks_for_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, NewYear()) == seconds


def explain(status: int, message: str, code: str = "", **headers: str) -> ProviderError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    refusal = ProviderRefusal(status=status, message=message, code=code, headers=named)
    return error_of(refusal, provider="p", key_variable="K")


@pytest.mark.parametrize(
    ("message", "tokens", "limit"),
    [
        ("prompt is too long: 205000 tokens > 200000 maximum", 205_000, 200_000),
        (
            "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000, decrease",
            199_000,
            200_000,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (…)",
            5000,
            4096,
        ),
        ("the request exceeds the available context size, try increasing it", None, None),
        ("request (9035 tokens) exceeds the available context size (8192 tokens), try it", 9_035, 8_192),
        ("Prompt is too long", None, None),
    ],
)
def test_a_prompt_too_long_is_known_in_every_providers_words(
    message: str, tokens: int | None, limit: int | None
) -> None:
    error = explain(400, message)
    assert isinstance(error, PromptTooLong)
    assert (error.tokens, error.limit) == (tokens, limit)


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("messages.3.content.0: `thinking` block was produced after different content; …", ThinkingMismatch),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", ThinkingMismatch),
        (
            "messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest assistant message "
            "cannot be modified. These blocks must remain as they were in the original response.",
            ThinkingMismatch,
        ),
        (
            "When providing `thinking` or `redacted_thinking` blocks, the blocks must match the parameters "
            "during the original request.",
            ThinkingMismatch,
        ),
        ("Expected `thinking` or `redacted_thinking`, but found `text`.", InvalidRequest),
        ("The `content[].thinking` in the thinking mode must be passed back to the API.", InvalidRequest),
    ],
)
def test_refused_thinking_is_recognised(message: str, wanted: type[ProviderError]) -> None:
    assert type(explain(400, message)) is wanted
    if wanted is ThinkingMismatch:
        assert type(explain(400, message, x_should_retry="false")) is wanted


def test_a_provider_that_asks_not_to_be_tried_again_is_not() -> None:
    assert type(explain(429, "spend limit", x_should_retry="false")) is ProviderError
    assert type(explain(429, "slow")) is Overloaded


def test_a_page_of_markup_becomes_one_short_line() -> None:
    said = str(explain(502, "<html>\n" + "<p>bad gateway</p>\n" * 500))
    assert "\n" not in said
    assert len(said) < 600
