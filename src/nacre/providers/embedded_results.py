"""What a person is shown of a result that was shortened for a model: its beginning, or the earlier text."""

from __future__ import annotations

import re
from collections.abc import Mapping

_POINTER = re.compile(
    r"<persisted-output>\n[^\n]*\n(?P<path>[^\n]+)\n.*?\n\n(?P<preview>.*)\n\[\.\.\.\]\n</persisted-output>\s*",
    re.DOTALL,
)
_REFERENCE = re.compile(
    r"\[(?:Unchanged: the text of|The same [\d,]+ characters as) .*\((?P<call>[^()\s]+)\)"
)


def as_shown(text: str, earlier: Mapping[str, str]) -> tuple[str, str | None]:
    """The words to show, and where all of them are if these are only the first.

    `earlier` holds the texts of earlier results by the id of their call.
    """
    if pointer := _POINTER.fullmatch(text):
        return pointer["preview"], pointer["path"]
    reference = _REFERENCE.match(text)
    return (earlier.get(reference["call"], text) if reference else text), None
