"""The exceptions that nacre raises; their messages say what to do.

NacreError
├── ConfigError          settings or environment cannot be used            (exit 3)
├── ProviderError        a model call failed for good                       (exit 4)
│   ├── AuthError            the key is missing, wrong or not allowed
│   ├── InvalidRequest       the provider refuses this request as it stands
│   │   └── ThinkingMismatch     it refuses thinking blocks, because content before them changed
│   ├── PromptTooLong        the provider says the prompt exceeds the window
│   ├── Overloaded           still busy, rate-limited or broken after all retries
│   └── StreamBroken         the connection dropped or sent something unreadable in mid-reply
├── AgentBusy            a turn of this agent is running
├── ContextOverflow      even the smallest view does not fit the window     (exit 1)
├── NothingToCompact     a compaction would gain nothing, or is forbidden   (exit 1)
├── SummaryRejected      the model's text is no summary and is not installed
├── TranscriptError      a session log cannot be read or written
│   ├── SessionNotFound      no session has this id
│   ├── SessionBusy          another process holds the session's lease
│   └── ForeignTranscript    the file is not a transcript in any known form
├── StoreError           bytes could not be read or written
│   ├── VersionConflict      another writer changed the key meanwhile
│   └── OutsideStore         the key leaves the store
├── MailError            a letter cannot be sent or read
├── ToolError            a tool cannot do what was asked; becomes an error result
├── HookRefused          a hook of the user blocks this                     (exit 1)
├── SpendCapReached      the spending limit for background work is reached
└── PrefixMoved          bytes already sent changed without being announced (raised in tests)
"""


class NacreError(Exception):
    """Base class; the message is one line that explains the problem."""

    exit_code = 1


class ConfigError(NacreError):
    """Raised when settings or environment cannot be used."""

    exit_code = 3


class ProviderError(NacreError):
    """Raised when a model call has failed and will not be retried."""

    exit_code = 4


class AuthError(ProviderError):
    """Raised when the key is missing, wrong or lacks a permission."""


class InvalidRequest(ProviderError):
    """Raised when the provider refuses this request as it is."""


class ThinkingMismatch(InvalidRequest):
    """Raised when the provider refuses thinking blocks, because content before them has changed.

    A request without any thinking blocks is accepted.
    """


class PromptTooLong(ProviderError):
    """Raised when the prompt exceeds the model's window."""

    def __init__(self, message: str, *, tokens: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.limit = limit


class Overloaded(ProviderError):
    """Raised when the provider is busy, limits the rate or is broken; worth a retry later."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unreachable(Overloaded):
    """Raised when no server listens at an address on this machine; a retry helps only if one is started."""


class StreamBroken(ProviderError):
    """Raised when the connection dropped, timed out or sent invalid data in mid-reply."""


class AgentBusy(NacreError):
    """Raised when a turn of this agent is already running."""


class ContextOverflow(NacreError):
    """Raised when even the smallest view does not fit into the model's window."""


class NothingToCompact(NacreError):
    """Raised when a compaction would not make the conversation smaller, or is forbidden."""


class SummaryRejected(NacreError):
    """Raised when the text of a model is no valid summary; the message is the reason."""


class TranscriptError(NacreError):
    """Raised when a session log cannot be read or written."""


class SessionNotFound(TranscriptError):
    """Raised when no session has this id."""


class SessionBusy(TranscriptError):
    """Raised when another process holds this session's lease."""


class ForeignTranscript(TranscriptError):
    """Raised when a file is not a transcript in any known format."""


class StoreError(NacreError):
    """Raised when bytes could not be read or written."""


class VersionConflict(StoreError):
    """Raised when another writer changed the key since it was read."""


class OutsideStore(StoreError):
    """Raised when a key leads outside the store."""


class MailError(NacreError):
    """Raised when a letter cannot be sent or read."""


class ToolError(NacreError):
    """Raised when a tool cannot do what was asked; the model reads it as an error result."""


class HookRefused(NacreError):
    """Raised when a hook of the user blocks the action."""


class SpendCapReached(NacreError):
    """Raised when the spending limit for background work is reached; the conversation continues."""


class PrefixMoved(NacreError):
    """Raised in tests when bytes that were already sent change unannounced."""
