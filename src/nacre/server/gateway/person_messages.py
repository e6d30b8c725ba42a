"""What the person wrote in a request, and text appended to it, for the three APIs (G4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from nacre.messages.blocks import Json, JsonObject, Text
from nacre.messages.user_quotes import own_words
from nacre.server.gateway.upstream import Api

DIGEST_BYTES = 16
"""128 bits: no two conversations collide by chance."""
PROGRAM_OPENINGS = (
    "This session is being continued from a previous conversation",
    "# AGENTS.md instructions",
    "Generate a title for this conversation",
)
"""How messages begin that agents write in the person's name."""
ELEMENT = re.compile(r"<([A-Za-z][\w.-]*)(?:\s[^<>]*)?>")
CLOSING = re.compile(r"</[A-Za-z][\w.-]*>\Z")
"""Text from one element to another was written by a program, such as Codex's `environment_context`."""
PROGRAM_RESULTS = re.compile(
    r"\[\w+(?: for [^\n]*)?\] Result:|observation:|execution result of \[|i ran this command:\n"
    r"|i have \*added these files to the chat\*|here are (?:summaries of some files|some read only files)",
    re.IGNORECASE,
)
"""How messages begin in which agents such as Cline, OpenHands and aider write results as text."""
DIRECTORY = re.compile(r"(?:[Ww]orking directory: |<cwd>)(/[^\n<\"]*)")
"""How Claude Code, opencode and Codex name the working directory to the model."""
SEARCHED_CHARS = 100_000
"""Of the system prompt and the first messages, for the working directory."""
SUBAGENT = "cc_is_subagent=true"
"""What Claude Code writes ahead of the system prompt of a sub-agent, whose prompts a model writes."""


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """A message of the person."""

    index: int
    """Position in the list that the request holds."""
    text: str
    """The person's own words."""
    link: bytes
    """Digest of the person's words up to here: it stays when an agent clears results or drops reasoning."""


def person_messages(api: Api, body: JsonObject, seed: bytes = b"") -> list[PersonMessage]:
    """Return the messages of a request in which the person says something, oldest first."""
    found: list[PersonMessage] = []
    link = seed
    for index, message in enumerate(listed_messages(api, body)):
        if text := _own_text(message):
            link = blake2b(link + text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest()
            found.append(PersonMessage(index, text, link))
    return found


def is_newest(api: Api, body: JsonObject, message: PersonMessage) -> bool:
    """Return whether no reply, tool result or other message follows."""
    return message.index == len(listed_messages(api, body)) - 1


def is_side_request(api: Api, body: JsonObject) -> bool:
    """Return whether an agent speaks to itself: a sub-agent, or a request for a title or a topic."""
    text = _instructions(api, body)
    if SUBAGENT in text[:1_000]:
        return True
    has_tools = bool(body.get("tools")) or any(
        one.get("type") == "additional_tools" for one in listed_messages(api, body)[:4]
    )
    return not has_tools and re.search(r"\b(title|topic)\b", text[:600], re.IGNORECASE) is not None


def working_directory(api: Api, body: JsonObject) -> Path | None:
    """Return the directory that the agent names to the model, if it is one of this machine."""
    texts = [_instructions(api, body)]
    for one in listed_messages(api, body)[:8]:
        if one.get("role") == "user":
            texts += [text for text in _texts(one.get("content")) if _is_programs(text.strip())]
        if _own_text(one):
            break  # what follows may be the text of anybody, and the project of a session stays
    said = DIRECTORY.search("\n".join(texts)[:SEARCHED_CHARS])
    return existing_directory(said[1].strip()) if said else None


def existing_directory(name: str) -> Path | None:
    path = Path(name)
    try:
        return path if path.is_absolute() and path.is_dir() else None
    except (OSError, ValueError):
        return None


def with_texts(api: Api, body: JsonObject, texts: Mapping[int, str]) -> JsonObject:
    """Return the request with a text behind each of these messages; nothing else differs."""
    name = "input" if api == "responses" else "messages"
    given = body.get(name)
    if isinstance(given, str):
        return {**body, name: f"{given}\n\n{texts[0]}"} if texts else body
    assert isinstance(given, list), "messages were found in it"
    changed = list(given)
    for index, text in texts.items():
        message = changed[index]
        assert isinstance(message, dict), "the person's words were found in it"
        changed[index] = {**message, "content": _appended(api, message.get("content"), text)}
    return {**body, name: changed}


def _appended(api: Api, content: Json, text: str) -> Json:
    part: JsonObject = {"type": "input_text" if api == "responses" else "text", "text": text}
    if isinstance(content, list):
        return [*content, part]
    # Many servers that speak OpenAI's API take no lists.
    return [{"type": "text", "text": content}, part] if api == "messages" else f"{content}\n\n{text}"


def listed_messages(api: Api, body: JsonObject) -> Sequence[JsonObject]:
    """Return the messages or items of a request at their positions, system messages included."""
    given = body.get("input" if api == "responses" else "messages")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    # Positions count, so that anything else stays as an empty message.
    return [one if isinstance(one, dict) else {} for one in given] if isinstance(given, list) else []


def _own_text(message: JsonObject) -> str:
    content = message.get("content")
    if message.get("role") != "user" or any(
        isinstance(one, dict) and one.get("type") == "tool_result"
        for one in (content if isinstance(content, list) else ())
    ):
        return ""
    texts = _texts(content)
    if any(PROGRAM_RESULTS.match(text.lstrip()) for text in texts):
        return ""
    own = (own_words((Text(text),)).strip() for text in texts)
    return "\n\n".join(text for text in own if text and not _is_programs(text))


def _is_programs(text: str) -> bool:
    is_markup = ELEMENT.match(text) is not None and CLOSING.search(text) is not None
    return text.startswith(PROGRAM_OPENINGS) or is_markup


def _instructions(api: Api, body: JsonObject) -> str:
    """Return the system prompt."""
    if api == "messages":
        return "\n".join(_texts(body.get("system")))
    texts = _texts(body.get("instructions"))
    for one in listed_messages(api, body)[:8]:
        if str(one.get("role")) in {"system", "developer"}:
            texts += _texts(one.get("content"))
    return "\n".join(texts)


def _texts(content: Json) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [text for one in parts if isinstance(one, dict) and isinstance(text := one.get("text"), str)]
