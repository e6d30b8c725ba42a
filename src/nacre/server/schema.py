"""Types of the HTTP API's bodies and answers; the OpenAPI document is made from them (S7)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nacre.memory.format.entry import Kind, Origin
from nacre.memory.recall.base import MAX_PICKS
from nacre.server.operation import Body

MAX_TEXT_CHARS = 20_000
MAX_NAME_CHARS = 200
MAX_MESSAGES = 2_000
MAX_QUERY_CHARS = 4_000

Text = Annotated[
    str, Field(min_length=1, max_length=MAX_TEXT_CHARS, description="What to keep, in full sentences.")
]
Name = Annotated[
    str, Field(max_length=MAX_NAME_CHARS, description="A short title; derived from the text if left out.")
]
Query = Annotated[
    str, Field(min_length=1, max_length=MAX_QUERY_CHARS, description="A question or a message.")
]


Reason = Annotated[str, Field(max_length=MAX_NAME_CHARS, description="Why, for the history.")]


class MemoryText(Body):
    """A memory to save."""

    text: Text
    name: Name = ""
    description: Annotated[
        str, Field(max_length=MAX_NAME_CHARS, description="One line that says when this is worth knowing.")
    ] = ""
    type: Annotated[Kind | None, Field(description="Derived from the text if left out.")] = None
    origin: Annotated[
        Origin,
        Field(description="Who said it; unverified and untrusted memories are found on request only."),
    ] = "user"
    file: Annotated[
        str, Field(max_length=MAX_NAME_CHARS, description="The file to write; by subject if left out.")
    ] = ""
    pinned: bool | None = None
    local_only: Annotated[
        bool | None, Field(description="Shown only to keys that were made with `--local`.")
    ] = None
    reason: Reason = ""


class MemoryPatch(Body):
    """New values of a memory; what is left out stays."""

    text: Text | None = None
    name: Name | None = None
    description: Annotated[str, Field(max_length=MAX_NAME_CHARS)] | None = None
    type: Kind | None = None
    pinned: bool | None = None
    origin: Annotated[Origin | None, Field(description="Of a new text; user if left out.")] = None
    reason: Reason = ""


class CorrectText(Body):
    """A new text, or a sentence that names the old value and the new one: `it is Friday, not Tuesday`."""

    text: Text
    origin: Annotated[Origin | None, Field(description="Left out: that of the memory.")] = None
    reason: Reason = ""


class FindMemory(Body):
    wanted: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_QUERY_CHARS,
            description="A file, a name, or words that match only one memory.",
        ),
    ]


class SearchQuery(Body):
    query: Query
    limit: Annotated[int, Field(ge=1, le=100)] = 5


class RecallText(Body):
    query: Annotated[str, Field(max_length=MAX_QUERY_CHARS, description="A message.")]
    limit: Annotated[int, Field(ge=1, le=MAX_PICKS, description="At most so many memories.")] = MAX_PICKS


class UndoCommit(Body):
    commit: Annotated[
        str,
        Field(
            pattern="^[0-9a-f]{0,40}$",
            description="A commit of the history or the beginning of its id; the newest in force if empty.",
        ),
    ] = ""
    reason: Reason = ""


class ReviewDecision(Body):
    id: Annotated[str, Field(min_length=1, max_length=200)]
    accept: Annotated[bool, Field(description="False drops the proposal.")] = True


class _Answer(BaseModel):
    """Fields may be added to any answer."""

    model_config = ConfigDict(extra="allow")


class MemoryHead(_Answer):
    file: str
    name: str
    description: str
    type: Kind | None
    origin: str
    modified: str | None
    bytes: int
    indexed: bool
    pinned: bool | None


class MemoryWhole(MemoryHead):
    body: str
    sources: list[str]


class Saved(_Answer):
    file: str
    commit: str
    feedback: str = ""
    entry: MemoryWhole
    before: Annotated[MemoryWhole | None, Field(description="The memory that was updated.")] = None


class MemoryPage(_Answer):
    """With `bodies=true` each entry has its `body`, too."""

    memories: list[MemoryHead]
    next: str | None = None


class Found(MemoryWhole):
    score: float


class SearchResult(_Answer):
    memories: list[Found]


class RecallPick(_Answer):
    """A memory that was chosen, with its score and the state of what it names."""

    file: str
    name: str
    text: Annotated[str, Field(description="The memory as it is attached to a message.")]


class RecallResult(_Answer):
    """What `nacre recall --json` prints."""

    query: str
    picks: list[RecallPick]
    left_out: list[dict[str, Any]]
    ranked: list[dict[str, Any]]
    took_ms: float
    skipped: str | None
    problem: str | None


class CommitEntry(_Answer):
    commit: str
    author: str
    reason: str
    session: str
    at: str
    files: list[str]
    confirmed: bool | None


class CommitPage(_Answer):
    commits: list[CommitEntry]


class FileChange(_Answer):
    file: str
    before: Annotated[str | None, Field(description="Id of the content; null if there was no file.")]
    after: str | None
    diff: str


class CommitDiff(_Answer):
    commit: str
    files: list[FileChange]


class Undone(_Answer):
    undone: str
    commit: str


class Forgotten(_Answer):
    file: str
    commit: str
    entry: MemoryWhole


class MemoryOrigin(_Answer):
    """What `nacre memory why --json` prints."""

    file: str
    name: str
    exists: bool
    origin: str
    sources: list[str]
    unconfirmed: list[str]
    history: list[CommitEntry]
    words: list[dict[str, Any]]


class ReviewPage(_Answer):
    proposals: list[dict[str, Any]]


class Reviewed(_Answer):
    id: str
    file: str
    commit: str


class SpaceNames(_Answer):
    spaces: list[str]


class SessionHead(_Answer):
    session: str
    cwd: str | None
    started: str | None
    modified: str
    messages: int
    tokens: int
    compactions: int
    title: str | None
    bytes: int


class SessionPage(_Answer):
    sessions: list[SessionHead]
    next: str | None = None


class SessionWhole(_Answer):
    session: str
    tokens: int
    requests: int
    messages: list[dict[str, Any]]


class SessionRequest(_Answer):
    """What the model saw at one request, and what it answered."""

    session: str
    request: int
    requests: int
    at: str | None
    tokens: int
    messages: list[dict[str, Any]]
    reply: dict[str, Any]
    usage: dict[str, Any] | None


class RequestList(_Answer):
    """The requests of a session: when, tokens, price, cache share, what layers did before each."""

    session: str
    title: str | None
    requests: list[dict[str, Any]]


class RequestBlocks(_Answer):
    """The blocks of one request, each with its mark and whether the request before had it."""

    session: str
    request: int
    requests: int
    total: int
    blocks: list[dict[str, Any]]
    marked: list[dict[str, Any]]
    reply: list[dict[str, Any]]
    changed_at: Annotated[int | None, Field(description="The first block that the cache could not serve.")]
    reason: str


class SearchHits(_Answer):
    hits: list[dict[str, Any]]


class SessionQuery(Body):
    query: Query
    limit: Annotated[int, Field(ge=1, le=200)] = 20


class Usage(_Answer):
    """What `nacre stats --json` prints."""

    days: int
    since: str
    sessions: int
    requests: int
    cost_usd: float | None
    memories: dict[str, Any]
    by_day: list[dict[str, Any]]


class AgentsAndTeams(_Answer):
    """What `nacre agents list --json` prints."""

    agents: list[dict[str, Any]]
    teams: list[dict[str, Any]]


class MailText(Body):
    to: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_NAME_CHARS,
            description="An agent's name, the beginning of its id or of a session's, or * for a whole team.",
        ),
    ]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
    team: Annotated[str, Field(max_length=MAX_NAME_CHARS)] = ""
    summary: Annotated[str, Field(max_length=MAX_NAME_CHARS)] = ""


class MailSent(_Answer):
    to: list[str]
    ids: list[str]
    waits: Annotated[bool, Field(description="The receiver is not running; the letter waits in its inbox.")]


class JobRequest(Body):
    kind: Literal["dream", "index", "extract"]
    session: Annotated[
        str,
        Field(
            max_length=MAX_NAME_CHARS,
            pattern=r"^[A-Za-z0-9._-]*$",
            description="To extract: the conversation's id; a job that waits for it gets the new messages.",
        ),
    ] = ""
    messages: Annotated[
        list[dict[str, Any]],
        Field(
            max_length=MAX_MESSAGES,
            description="To extract: the conversation, as sent to the API of Anthropic or OpenAI.",
        ),
    ] = []


class JobEntry(_Answer):
    id: str
    kind: str
    space: str
    user: str
    status: Literal["queued", "running", "completed", "failed"]
    attempts: int
    created: str
    finished: str | None
    error: str | None
    result: dict[str, Any] | None


class JobList(_Answer):
    jobs: list[JobEntry]


class AuditPage(_Answer):
    entries: list[dict[str, Any]]
    next: str | None = None


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
