"""Replies taken apart: the draft goes, nine sections are found however their headings look (C19)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.layers.l4_compact.summarise import TITLES, parse
from tests.layers.l4_compact.model_scenes import BODIES, reply_text

GERMAN = (
    "Auftrag und Absicht",
    "Begriffe",
    "Dateien",
    "Fehler",
    "Lösungen",
    "Nachrichten",
    "Offen",
    "Stand",
    "Weiter",
)
CHINESE = (
    "主要请求",
    "技术概念",
    "文件和代码",
    "错误和修复",
    "问题解决",
    "用户消息",
    "待办任务",
    "当前工作",
    "下一步",
)


def bodies(reply: str) -> dict[int, str]:
    return {one.number: one.body for one in parse(reply).sections}


ALL = dict(enumerate(BODIES, 1))


def styled(style: str, titles: tuple[str, ...] = TITLES) -> str:
    return "\n\n".join(
        style.format(n=n, title=title) + "\n" + BODIES[n - 1] for n, title in enumerate(titles, 1)
    )


@pytest.mark.parametrize(
    "style",
    ["{n}. {title}:", "{n}. {title}", "{n}) {title}:", "## {n}. {title}", "### {title}", "**{n}. {title}:**",
     "**{n}. {title}**:", "{n}. **{title}**", "{n}. **{title}:**", "**{title}**", "{title}:",
     "  {n}. {title}:"],
)  # fmt: skip
@pytest.mark.parametrize("case", [str, str.upper, str.title])
def test_headings_may_look_as_they_like(style: str, case) -> None:
    assert bodies(styled(style, tuple(case(title) for title in TITLES))) == ALL


@pytest.mark.parametrize("titles", [GERMAN, CHINESE])
@pytest.mark.parametrize("style", ["{n}. {title}:", "## {n}. {title}", "**{n}. {title}**", "{n}、{title}："])
def test_translated_headings_are_found_by_their_numbers(style: str, titles: tuple[str, ...]) -> None:
    assert bodies(f"<summary>{styled(style, titles)}</summary>") == ALL


PLAIN = styled("{n}. {title}:")


@pytest.mark.parametrize(
    "reply",
    [
        f"<analysis>think</analysis><summary>{PLAIN}</summary>",
        f"<analysis>think\n<summary>\n{PLAIN}</summary>",
        f"<analysis>a <analysis>b</analysis> c</analysis>\n<summary>{PLAIN}</summary>",
        f"<analysis>a <analysis>b</analysis>\n<summary>{PLAIN}</summary>",
        f"<analysis>a <summary>\n1. Primary request and intent: no</analysis><summary>{PLAIN}</summary>",
        f"<analysis>one</analysis>\n<analysis>two</analysis>\n<summary>{PLAIN}</summary>",
        f"<ANALYSIS >x</ANALYSIS>\n<Summary>\n{PLAIN}\n</Summary >",
        f"<summary>\n<analysis>x</analysis>\n{PLAIN}</summary>",
        f"<summary>{PLAIN}",
        f"<summary>{PLAIN}</summary>\nI hope that this helps!",
        f"Here it is:\n\n{PLAIN}",
        PLAIN.replace("\n", "\r\n"),
    ],
)
def test_the_draft_and_what_stands_around_the_summary_go(reply: str) -> None:
    assert bodies(reply) == ALL


def test_lists_and_code_inside_a_section_are_no_headings() -> None:
    nested = "1. a list\n2. Pending tasks of another kind\n```\n3. Files and code:\n## Current work\n```"
    reply = reply_text("Do it.", nested)
    assert bodies(reply) == {**ALL, 1: "Do it.", 2: nested}


def test_lists_inside_translated_sections_are_no_headings() -> None:
    text = styled("## {n}. {title}", GERMAN).replace(BODIES[0], "1. dies\n2. das\n3. jenes")
    assert bodies(text) == {**ALL, 1: "1. dies\n2. das\n3. jenes"}


def test_tags_named_inside_a_summary_are_words() -> None:
    told = "The page has `<details><summary>x</summary></details>` and `<analysis>` in it."
    assert bodies(reply_text(told)) == {**ALL, 1: told}


def test_the_persons_messages_are_never_rendered() -> None:
    """C20: whatever a model writes there, section 6 comes from the log."""
    reply = reply_text(*BODIES[:5], '- "delete everything"')
    assert "delete everything" not in parse(reply).render()
    assert "All user messages" not in parse(reply).render()


@pytest.mark.parametrize(
    ("reply", "missing"),
    [
        ("", 7),
        ("I looked at everything and all is well.", 7),
        ("<analysis>" + PLAIN, 7),
        (reply_text("None."), 1),
        (reply_text("-"), 1),
        (PLAIN.replace("8. Current work:", "Then:"), 1),
        (PLAIN.replace("9. Optional next step:", ""), 0),
        (PLAIN.replace("6. All user messages:", ""), 0),
        (PLAIN.replace(BODIES[1], ""), 0),
    ],
)
def test_what_is_missing_is_named(reply: str, missing: int) -> None:
    assert len(parse(reply).missing) == missing


@given(st.text(alphabet="<>/analysisummry1.9: \n#*`-é", max_size=200))
def test_no_reply_breaks_the_reading(reply: str) -> None:
    assert len(parse(reply).sections) <= 9
