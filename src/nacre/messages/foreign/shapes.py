"""Small questions about JSON of unknown origin, shared by the readers of foreign files."""

from __future__ import annotations

from nacre.messages.blocks import Json, JsonObject


def objects(value: Json) -> list[JsonObject]:
    """The objects in a list; anything else has none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_of(value: Json) -> str:
    return value if isinstance(value, str) else ""


def rest(value: JsonObject, *known: str) -> JsonObject:
    """The fields a reader does not know and that say something."""
    return {key: one for key, one in value.items() if key not in known and one is not None}


def messages_of(value: Json) -> list[JsonObject] | None:
    """The messages in a value: a bare list, or under one of the names in use; None when there are none."""
    listed = value
    if isinstance(value, dict):
        listed = next((value[name] for name in ("messages", "traj") if name in value), None)
    found = objects(listed)
    is_list = isinstance(listed, list) and len(found) == len(listed)
    return found if found and is_list and all("role" in one for one in found) else None
