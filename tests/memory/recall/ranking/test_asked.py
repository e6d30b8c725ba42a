"""What a sentence asks for, in several languages."""

from __future__ import annotations

import pytest

from nacre.memory.recall.ranking.asked import asked


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("when is the freeze", "time"),
        ("合同什么时候到期", "time"),
        ("how much may the trip cost", "amount"),
        ("预算还剩多少", "amount"),
        ("where are our secrets stored", "place"),
        ("新首页的稿子放哪了", "place"),
        ("who signs off on refunds", "person"),
        ("要谁点头", "person"),
        ("add a test for the import", "task"),
        ("写一份周报", "task"),
        ("can I install lodash for this", "task"),
        ("could you draft the letter?", "task"),
        ("what is a bloom filter", ""),
        ("什么是闭包", ""),
    ],
)
def test_what_is_asked_for(text: str, wanted: str) -> None:
    found = asked(text)._asdict()
    assert {name.removeprefix("for_") for name, is_so in found.items() if is_so} == ({wanted} - {""})
