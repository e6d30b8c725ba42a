"""What becomes of one file in a sync: every case of three versions, and what is known without a record."""

from __future__ import annotations

import pytest

from nacre.errors import StoreError
from nacre.memory.team.merge import base_of, verdict
from nacre.memory.team.remote import (
    MAX_KNOWN,
    MAX_KNOWN_BYTES,
    RemoteSnapshot,
    encode_known,
    known_after,
    parse_known,
)

A, B, C, NONE = "a" * 40, "b" * 40, "c" * 40, ""


@pytest.mark.parametrize(
    ("mine", "theirs", "base", "becomes"),
    [
        (A, A, A, "same"), (A, A, NONE, "same"), (NONE, NONE, A, "same"),
        (A, B, A, "take"), (NONE, B, NONE, "take"),
        (A, NONE, A, "drop"),
        (B, A, A, "give"), (A, NONE, NONE, "give"),
        (NONE, A, A, "withdraw"),
        (NONE, B, A, "keep_theirs"),
        (B, NONE, A, "keep_mine"),
        (B, C, A, "both"), (B, C, NONE, "both"),
    ],
)  # fmt: skip
def test_each_case_of_three_versions(mine: str, theirs: str, base: str, becomes: str) -> None:
    """M18: one side's change goes to the other; where both changed, no text is lost."""
    assert verdict(mine, theirs, base) == becomes


def base(
    mine: str, theirs: str, *, last: dict[str, str] | None, known: tuple[str, ...] = (), had: str = "?"
) -> str:
    named = {"f.md": known} if known else {}
    return base_of(
        "f.md", mine=mine, theirs=theirs, last=last, known=named, had=lambda _, version: version == had
    )


def test_the_record_is_believed() -> None:
    assert base(B, A, last={"f.md": A}, known=(A,)) == A
    assert base(A, NONE, last={"f.md": A}, known=(A,)) == A  # forgotten there: there is a tombstone


def test_what_is_gone_without_a_tombstone_was_lost_not_forgotten() -> None:
    """M18: a branch that somebody deleted takes nobody's memory along."""
    assert base(A, NONE, last={"f.md": A}) == NONE
    assert verdict(A, NONE, NONE) == "give"


def test_without_a_record_an_old_copy_is_known_as_one() -> None:
    """M18: what was forgotten stays forgotten, also when a clone that lost its record still has it."""
    assert base(A, NONE, last=None, known=(A, B)) == A
    assert base(A, B, last={}, known=(A, B)) == A
    assert base(C, B, last=None, known=(A, B)) == NONE


def test_without_a_record_the_history_knows_what_was_changed_or_forgotten_here() -> None:
    assert base(NONE, A, last=None, known=(A,), had=A) == A
    assert base(C, A, last=None, known=(A,), had=A) == A
    assert base(NONE, A, last={}, known=(A,), had=A) == NONE  # with a record, it would say so


def test_versions_are_remembered_in_order_and_bounded() -> None:
    shared = RemoteSnapshot(files={"f.md": A}, known={"f.md": (B,), "gone.md": (C,)})
    assert known_after(shared, {"f.md": C, "new.md": B, "gone.md": NONE}) == {
        "f.md": (B, A, C), "gone.md": (C,), "new.md": (B,),
    }  # fmt: skip
    many = RemoteSnapshot(known={"f.md": tuple(f"{n:040}" for n in range(MAX_KNOWN))})
    assert known_after(many, {"f.md": A})["f.md"][-2:] == (f"{MAX_KNOWN - 1:040}", A)
    assert len(known_after(many, {"f.md": A})["f.md"]) == MAX_KNOWN


def test_what_is_known_comes_back_and_what_is_odd_in_it_is_left_out() -> None:
    assert parse_known(encode_known({"é.md": (A, B)})) == {"é.md": (A, B)}
    assert parse_known(b'{"format": 1, "known": {"a.md": ["short", 1], "b.md": 3}}') == {"a.md": ()}
    for junk in (b"", b"[]", b"\xff", b'{"format": 1}', b"[" * 100_000, b" " * (MAX_KNOWN_BYTES + 1)):
        with pytest.raises(ValueError):
            parse_known(junk)
    with pytest.raises(StoreError, match="update nacre"):
        parse_known(b'{"format": 2, "known": {}}')
