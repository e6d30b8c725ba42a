"""What a person is shown of a result that was shortened for a model: its beginning, or the earlier text."""

from __future__ import annotations

import re
from collections.abc import Mapping

_POINTER = re.compile(
    r"<persisted-output>\n(?P<about>[^\n]*)\n(?P<path>[^\n]+)\n.*?\n\n(?P<preview>.*)"
    r"\n\[\.\.\.\]\n</persisted-output>\s*",
    re.DOTALL,
)
_REFERENCE = re.compile(
    r"\[(?:Unchanged: the text of|The same [\d,]+ characters as) .*\((?P<call>[^()\s]+)\)"
)


def is_cut_pointer(text: str) -> bool:
    """Whether the file that a pointer names holds only what a tool returned of its result."""
    pointer = _POINTER.fullmatch(text)
    return pointer is not None and "it is not complete:" in pointer["about"]


def as_shown(text: str, earlier: Mapping[str, str]) -> tuple[str, str | None]:
    """The words to show, and the file with more of them if these are only the first.

    `earlier` holds the texts of earlier results by the id of their call.
    """
    if pointer := _POINTER.fullmatch(text):
        return pointer["preview"], pointer["path"]
    reference = _REFERENCE.match(text)
    return (earlier.get(reference["call"], text) if reference else text), None
