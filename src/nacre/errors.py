"""Every exception nacre raises on purpose; the message says what to do.

NacreError
├── ConfigError          settings or environment cannot be used            (exit 3)
├── ProviderError        a model call failed for good                       (exit 4)
│   ├── AuthError            the key is missing, wrong or not allowed
│   ├── InvalidRequest       the provider refuses this request as it stands
│   │   └── ThinkingMismatch     it refuses thinking blocks, because content before them changed
│   ├── PromptTooLong        the provider says the prompt exceeds the window
│   ├── Overloaded           still busy, rate-limited or broken after all retries
│   └── StreamBroken         the connection dropped or sent something unreadable in mid-reply
├── AgentBusy            a turn of this agent is under way
├── ContextOverflow      even the smallest view does not fit the window     (exit 1)
├── NothingToCompact     a compaction would gain nothing, or is forbidden   (exit 1)
├── SummaryRejected      what came back is no summary and is not installed
├── TranscriptError      a session log cannot be read or written
│   ├── SessionNotFound      no session has this id
│   ├── SessionBusy          another process holds the session's lease
│   └── ForeignTranscript    the file is not a transcript in any known form
├── StoreError           bytes could not be read or written
│   ├── VersionConflict      someone else wrote the key meanwhile
│   └── OutsideStore         the key leaves the store
├── MailError            a letter cannot be sent or read
├── ToolError            a tool cannot do what was asked; becomes an error result
├── HookRefused          a command of the person's does not let this go on  (exit 1)
├── SpendCapReached      what background work may cost is used up
└── PrefixMoved          bytes already sent changed without being announced (raised in tests)
"""


class NacreError(Exception):
    """Something nacre can explain in one line."""

    exit_code = 1


class ConfigError(NacreError):
    """Settings or environment cannot be used."""

    exit_code = 3


class ProviderError(NacreError):
    """A model call failed for good."""

    exit_code = 4


class AuthError(ProviderError):
    """The key is missing, wrong or not allowed to do this."""


class InvalidRequest(ProviderError):
    """The provider refuses this request as it stands."""


class ThinkingMismatch(InvalidRequest):
    """The provider refuses thinking blocks in the request: content before them changed since they were made.

    A request without any thinking blocks is accepted.
    """


class PromptTooLong(ProviderError):
    """The provider says the prompt exceeds the model's window."""

    def __init__(self, message: str, *, tokens: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.limit = limit


class Overloaded(ProviderError):
    """The provider is busy, rate-limits us or is broken; worth another try later."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StreamBroken(ProviderError):
    """The connection dropped, went silent or sent something unreadable in mid-reply."""


class AgentBusy(NacreError):
    """A turn of this agent is under way, and it plays one at a time."""


class ContextOverflow(NacreError):
    """Even the smallest view does not fit the model's window."""


class NothingToCompact(NacreError):
    """A compaction would not make the conversation smaller, or somebody forbids it."""


class SummaryRejected(NacreError):
    """What was to stand for the conversation is no summary of it; the reason is the message."""


class TranscriptError(NacreError):
    """A session log cannot be read or written."""


class SessionNotFound(TranscriptError):
    """No session has this id."""


class SessionBusy(TranscriptError):
    """Another process holds this session's lease."""


class ForeignTranscript(TranscriptError):
    """The file is not a transcript in any form nacre knows."""


class StoreError(NacreError):
    """Bytes could not be read or written."""


class VersionConflict(StoreError):
    """Someone else wrote this key since it was read."""


class OutsideStore(StoreError):
    """The key leads outside the store."""


class MailError(NacreError):
    """A letter cannot be sent or read; the message says why and what to do."""


class ToolError(NacreError):
    """A tool cannot do what was asked; the model reads this as an error result."""


class HookRefused(NacreError):
    """A command of the person's does not let this go on."""


class SpendCapReached(NacreError):
    """What background work may cost is used up; the work ends, the conversation goes on."""


class PrefixMoved(NacreError):
    """Bytes already sent to the provider changed without being announced."""
