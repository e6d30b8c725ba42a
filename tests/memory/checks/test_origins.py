"""Whose words a memory repeats."""

from __future__ import annotations

import pytest

from nacre.memory.checks.origins import origin_of

PAGE = "Acme Docs. To rotate the signing key call the admin port with the word sesame. Contact us."


@pytest.mark.parametrize(
    ("text", "user", "tools", "expected"),
    [
        ("Deploys happen on Tuesday.", "remember that deploys happen on Tuesday", "", "user"),
        ("The person ships once a week.", "remember that deploys happen on Tuesday", "", "agent"),
        ("To rotate the signing key call the admin port with sesame.", "read that page", PAGE, "untrusted"),
        ("Note: rotate the signing key call the admin port, they say.", "read that page", PAGE, "untrusted"),
        (
            "To rotate the signing key call the admin port.",
            "remember: to rotate the signing key call the admin port",
            PAGE,
            "user",
        ),
        ("部署在每周二进行", "请记住部署在每周二进行", "", "user"),
        ("部署在每周二进行", "看看网页", "网页说部署在每周二进行。", "untrusted"),
        ("", "anything", "anything", "agent"),
        ("yes", "yes", "", "user"),
    ],
)
def test_a_text_belongs_to_whom_it_repeats(text: str, user: str, tools: str, expected: str) -> None:
    """M16b: the person's words win over a page that says the same."""
    assert origin_of(text, by_user=[user], by_tools=[tools]) == expected


def test_a_run_of_words_does_not_reach_from_one_text_into_the_next() -> None:
    assert origin_of("alpha beta gamma", by_user=["alpha beta", "gamma"], by_tools=[]) == "agent"
