"""Made-up memories in a few small stores: with them the benchmark shows that it runs, without any data."""

from __future__ import annotations

from datetime import date

from bench.recall.schema import HALVES, Half, Question, Store
from nacre.memory.recall.ranking.analysis import Doc

_GARDEN = (
    ("Ada", "I planted six tomato seedlings along the south fence."),
    ("Ben", "My rain barrel holds two hundred litres."),
    ("Ada", "The neighbour's cat keeps digging in the herb bed."),
    ("Ben", "I water the beans every second evening."),
    ("Ada", "The compost heap must be turned in March."),
    ("Ben", "Since June the barrel holds three hundred litres: I bought a bigger one."),
)
_RELEASE = (
    ("Cleo", "We tag a release only from the branch named stable."),
    ("Dan", "The nightly build takes forty minutes."),
    ("Cleo", "The changelog is written by hand before the tag."),
    ("Dan", "The signing key lies in the office safe."),
    ("Cleo", "Windows wheels are built on the slow runner."),
    ("Dan", "Flaky network tests are retried twice."),
)
_NOW = {"5"}
"""The fact that contradicts an older one."""
_ASKED = {
    "garden": (
        ("What did Ada plant along the fence?", {"0"}),
        ("How much does Ben's rain barrel hold?", {"1", "5"}),
    ),
    "release": (
        ("From which branch do we tag a release?", {"0"}),
        ("Where is the signing key?", {"3"}),
    ),
}


def stores() -> list[Store]:
    """Two stores for each half, each with a question that nothing answers."""
    return [
        _store(f"{name}-{half}", facts, name, half)
        for half in HALVES
        for name, facts in (("garden", _GARDEN), ("release", _RELEASE))
    ]


def _store(name: str, facts: tuple[tuple[str, str], ...], subject: str, half: Half) -> Store:
    docs = tuple(
        Doc(id=str(i), folder="notes", order=i, when=date(2026, 1, 1 + i), author=author, body=text)
        for i, (author, text) in enumerate(facts)
    )
    asked = [
        Question(
            id=f"{name}/{i}", text=text, gold=frozenset(gold), kind="fact", half=half,
            newer=frozenset(gold & _NOW), older=frozenset(gold - _NOW) if gold & _NOW else frozenset(),
        )
        for i, (text, gold) in enumerate(_ASKED[subject])
    ]  # fmt: skip
    trap = Question(
        id=f"{name}/none", text=f"What did {facts[1][0]} say about sailing?", gold=frozenset({"0"}),
        kind="trap", half=half, is_answerable=False,
    )  # fmt: skip
    return Store(f"made_up/{name}", docs, (*asked, trap))
