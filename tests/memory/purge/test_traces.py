"""A memory's words, recognised in whatever form somebody quoted them (M14b)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.purge.traces import MARK, Traces
from nacre.messages.untrusted_text import neutralise

BODY = """The build server is called hopper and lives in the basement of house 12.

**Why:** the cooling upstairs failed twice in the summer of 2024.
**How to apply:** ask Wu before you pull a plug.
PIN: 4711-0815
"""
TRACES = Traces("hopper.md", [BODY, "Build server hopper"])
READ = "\n".join(
    f"{number:>6}\t{line}"
    for number, line in enumerate(
        ["the build server", "is called hopper", "and lives in", "the basement of"], 7
    )
)
"""Lines as Read writes them, each too short to be recognised alone."""


@pytest.mark.parametrize(
    "quoted",
    [
        BODY,
        " ".join(BODY.split()),
        "\n".join(f"{number:6}\t{line}" for number, line in enumerate(BODY.splitlines(), 1)),
        READ,
        json.dumps({"text": READ}),
        json.dumps(json.dumps({"text": READ})),
        "\n".join(f"+{line}" for line in BODY.splitlines()),
        "it said: The build server is called hopper and lives in the base…",
        "It answered “the build server is called hopper and lives in the basement of house 12”",
        json.dumps({"text": BODY}),
        "- [Hopper](hopper.md) — anything at all",
        "see /srv/home/projects/-x/memory/hopper.md",
        "Saved to hopper.md.",
        "the cooling upstairs failed twice in the summer of 2024",
        "your PIN: 4711-0815, as you said",
    ],
)
def test_a_quotation_is_recognised_in_any_form(quoted: str) -> None:
    without = TRACES.without(quoted)
    assert MARK in without
    assert TRACES.may_be_in(quoted.encode())
    for word in ("hopper", "basement", "cooling", "4711"):
        assert word not in without
    assert TRACES.without(without) == without


@pytest.mark.parametrize(
    "other",
    [
        "The build of the server failed; see the log of house 12.",
        "grace_hopper.md and hopper.md.bak-x are other files, as is docs/hopper.mdx",
        "docs/hopper.md",
        "How to apply: read the manual first. Why: because.",
        "The build server is slow.",
    ],
)
def test_words_that_anybody_may_use_stay(other: str) -> None:
    assert TRACES.without(other) == other


def test_a_short_line_counts_only_where_the_text_is_about_the_memory() -> None:
    traces = Traces("tea.md", ["likes green tea"])
    assert traces.without("she likes green tea as well") == "she likes green tea as well"
    assert traces.without("she likes green tea", is_about=True) == f"she {MARK}"
    assert "green" not in traces.without("tea.md, 2026-01-01:\nlikes green tea")


def test_what_another_memory_says_too_is_not_this_ones_alone() -> None:
    shared = "Every release is announced in the newsletter on the first Monday."
    traces = Traces("a.md", [f"{shared}\nThe editor in chief is called Marguerite Duval."], others=[shared])
    assert traces.without(shared) == shared
    assert traces.are_in("The editor in chief is called Marguerite Duval.")


@given(st.text(max_size=200))
def test_a_text_is_rid_of_itself_however_it_was_neutralised(body: str) -> None:
    """What is long enough to be recognised is, and doing it twice changes nothing more."""
    traces = Traces("x.md", [body])
    for text in (body, neutralise(body)):
        once = traces.without(text, is_about=True)
        assert traces.without(once, is_about=True) == once


@given(
    st.lists(
        st.sampled_from("日本語の記憶は東京にある".split() + list("今日明日去年")), min_size=10, max_size=30
    )
)
def test_scripts_without_spaces_are_compared_sign_by_sign(signs: list[str]) -> None:
    body = "".join(signs)
    traces = Traces("x.md", [body])
    assert body not in traces.without(f"前書き {body} 後書き")
    assert traces.may_be_in(json.dumps(body).encode())


@pytest.mark.parametrize(
    "secret",
    [
        "kF9#qLz2!mVw",
        "Summer2024",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "xKqPzLmVtRwN",
        "pa$$w'ord",
        "JBSWY3DPEHPK3PXP",
        "django-insecure-8v!s",
        "4111 1111 1111 1111",
        "+49 170 1234567",
        "https://intranet.example/wiki",
        "ada@example.org",
        'a"b1"c"d2',
    ],
)
def test_a_rare_word_is_recognised_on_its_own(secret: str) -> None:
    traces = Traces("x.md", [f"The staging password is {secret}, as of today."])
    for text in (f"DB_PASSWORD='{secret}'", f"mysql -h db -p {secret}", json.dumps({"is": secret}), secret):
        assert secret not in traces.without(text), text
        assert json.dumps(secret) not in traces.without(text), text
        assert traces.may_be_in(text.encode())
        assert traces.may_be_in(json.dumps({"text": text}).encode())
    assert Traces("x.md", [f"DB_PASSWORD={secret}"]).without(secret) == MARK


def test_ordinary_words_paths_dates_and_versions_are_not_rare() -> None:
    body = (
        "Since 2026-11-16T12:30:00Z the JavaScript of src/app2/main.py and test_app2.py:14 runs on"
        " ubuntu-24.04 with python3.11; see /srv/www2/site, ~/notes2/today and the 12-factor rules,"
        " not house 12 or PIN 4711."
    )
    assert Traces("x.md", [body]).rare_words == ()


def test_a_rare_word_that_another_memory_contains_is_not_searched_for() -> None:
    text = "The key is kF9#qLz2!mVw."
    assert Traces("x.md", [text], others=["Ask for kf9#qlz2!mvw."]).rare_words == ()


def test_an_address_or_number_inside_a_longer_one_is_another() -> None:
    traces = Traces("x.md", ["Call 030123456789 or see https://example.org and ada@example.org."])
    others = "1030123456789 https://example.org/ada?x bada@example.org ada@example.org.uk"
    assert traces.without(others) == others
