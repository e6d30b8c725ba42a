"""What a sync does with each file: three versions in, one verdict out; pure (M18).

`mine` is what lies here, `theirs` what the others have, `base` what both had when they were last in step. The
empty version stands for no file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, TypeAlias

from nacre.memory.files.folder import ABSENT

Verdict: TypeAlias = Literal["same", "take", "drop", "give", "withdraw", "keep_mine", "keep_theirs", "both"]
"""`take` and `drop` change this side, `give` and `withdraw` the other; the last three are conflicts, in which
nothing is lost: a changed text outlives its deletion, and of two changed texts both are kept."""

Had: TypeAlias = Callable[[str, str], bool]
"""Whether this side once had a file in a version."""


def verdict(mine: str, theirs: str, base: str) -> Verdict:
    """What becomes of one file."""
    if mine == theirs:
        return "same"
    if mine == base:
        return "take" if theirs else "drop"
    if theirs == base:
        return "give" if mine else "withdraw"
    if not mine:
        return "keep_theirs"
    return "both" if theirs else "keep_mine"


def base_of(
    file: str,
    *,
    mine: str,
    theirs: str,
    last: Mapping[str, str] | None,
    known: Mapping[str, Collection[str]],
    had: Had,
) -> str:
    """The version both sides were last in step with; worked out where it is not on record.

    `last` is the record, none when it is lost. `known` are the versions the others ever had, so that a file
    that is neither there nor named in it was not forgotten: the place was lost, or is a new one.
    """
    if last is not None and file in last:
        return ABSENT if not theirs and file not in known else last[file]
    if mine and mine in known.get(file, ()):
        return mine  # an old copy, whoever brought it here: newer texts and deletions hold
    if last is None and theirs and had(file, theirs):
        return theirs  # changed or forgotten here since, before the record was lost
    return ABSENT
