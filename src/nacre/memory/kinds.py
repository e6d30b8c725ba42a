"""Of which kind a memory is whose writer does not say: by its first sentence (M12)."""

from __future__ import annotations

import re

from nacre.memory.entry import Kind
from nacre.memory.wording import description_of


def kind_of(body: str, *, is_shared: bool = False) -> Kind:
    """What it is about: how to work, where to look, the person, else the project.

    What is shared with a team is about no person, so that it is refused only where somebody says it is (M18).
    """
    said = description_of(body).translate(_APOSTROPHES)
    if _CONDUCT.search(said):
        return "feedback"
    if _ADDRESS.search(body):
        return "reference"
    if not is_shared and _PERSON.match(said):
        return "user"
    return "reference" if _PLACE.search(said) else "project"


_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_CONDUCT = re.compile(
    r"^(?:please\b|always\b|never\b|don't\b|do not\b|use\b|avoid\b|prefer\b|stop\b|make sure\b)"
    r"|\b(?:from now on|going forward)\b|^in (?:the )?future\b"
    r"|^(?:以后|今后|往后|从现在|从今|总是|不要|别|永远|请)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://\S")
_PERSON = re.compile(r"(?:i|my|me|(?:the )?(?:user|person)(?:'s)?)\b|我(?!们)", re.IGNORECASE)
_PLACE = re.compile(
    r"\b(?:dashboards?|trackers?|wikis?|runbooks?|jira|grafana|confluence)\b|看板|仪表盘", re.IGNORECASE
)
