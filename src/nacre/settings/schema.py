"""What a setting's value may be: each kind checks JSON and reads the text of a variable."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, fields
from enum import Enum
from typing import Protocol

from nacre.messages.blocks import Json
from nacre.settings.values import Roles, Switches

ON = frozenset({"1", "true", "yes", "on"})
OFF = frozenset({"0", "false", "no", "off"})
MAX_TOKENS = 100_000_000
"""Far above any window, low enough to catch a slip of the keyboard."""


class Kind(Protocol):
    """One sort of value; both methods raise `ValueError` for one that is not of it."""

    @property
    def allowed(self) -> str:
        """For people, after "must be"."""
        ...

    def checked(self, value: Json) -> Json: ...

    def read(self, text: str) -> Json: ...


@dataclass(frozen=True, slots=True)
class Word:
    """Text on one line; one of `choices` where there are any."""

    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        return " or ".join(f'"{choice}"' for choice in self.choices) or "text on one line"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise ValueError(value)
        if self.choices and value not in self.choices:
            raise ValueError(value)
        return value

    def read(self, text: str) -> Json:
        return self.checked(text)


@dataclass(frozen=True, slots=True)
class Prose:
    """Text of any length."""

    allowed: str = "text"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str):
            raise TypeError(value)
        return value

    def read(self, text: str) -> Json:
        return text


@dataclass(frozen=True, slots=True)
class Address:
    """The base of an HTTP interface."""

    allowed: str = "an address that starts with http:// or https://"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, str) or not value.isprintable() or " " in value:
            raise ValueError(value)
        if not value.startswith(("http://", "https://")) or not value.partition("://")[2].strip("/"):
            raise ValueError(value)
        return value

    def read(self, text: str) -> Json:
        return self.checked(text.strip())


@dataclass(frozen=True, slots=True)
class Number:
    """A number between two bounds, whole unless told otherwise."""

    low: float = 1
    high: float = MAX_TOKENS
    is_whole: bool = True

    @property
    def allowed(self) -> str:
        return f"a {'whole ' if self.is_whole else ''}number from {self.low:g} to {self.high:,.10g}"

    def checked(self, value: Json) -> Json:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(value)
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise ValueError(value)
        if self.is_whole and value != int(value):
            raise ValueError(value)
        return int(value) if self.is_whole else float(value)

    def read(self, text: str) -> Json:
        plain = text.strip().replace("_", "")
        return self.checked(int(plain) if self.is_whole else float(plain))


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no; with `auto`, a third answer that leaves it to the layer."""

    has_auto: bool = False

    @property
    def allowed(self) -> str:
        return 'true, false or "auto"' if self.has_auto else "true or false"

    def checked(self, value: Json) -> Json:
        if isinstance(value, bool) or (self.has_auto and value == "auto"):
            return value
        raise ValueError(value)

    def read(self, text: str) -> Json:
        word = text.strip().lower()
        return word in ON if word in ON | OFF else self.checked(word)


@dataclass(frozen=True, slots=True)
class Table:
    """A JSON object; with `is_words`, one whose values are all text."""

    is_words: bool = False

    @property
    def allowed(self) -> str:
        return f"a JSON object{' whose values are text' if self.is_words else ''}"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, dict):
            raise TypeError(value)
        if self.is_words and not all(isinstance(item, str) for item in value.values()):
            raise ValueError("a value is not text")
        return value

    def read(self, text: str) -> Json:
        value: Json = json.loads(text)
        return self.checked(value)


@dataclass(frozen=True, slots=True)
class Counts:
    """Whole numbers by name."""

    allowed: str = "a JSON object whose values are whole numbers"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, dict):
            raise TypeError(value)
        one = Number()
        return {name: one.checked(item) for name, item in value.items()}

    def read(self, text: str) -> Json:
        value: Json = json.loads(text)
        return self.checked(value)


@dataclass(frozen=True, slots=True)
class Words:
    """A list of texts; a variable holds a JSON list, or one text."""

    allowed: str = "a list of texts"

    def checked(self, value: Json) -> Json:
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise TypeError(value)
        return value

    def read(self, text: str) -> Json:
        value: Json = json.loads(text) if text.strip().startswith("[") else [text.strip()]
        return self.checked(value)


PREFIX = "NACRE_"


class Layer(Enum):
    """Where a value can come from, strongest first."""

    POLICY = "policy"
    CLI = "command line"
    ENVIRONMENT = "environment"
    LOCAL = "local"
    PROJECT = "project"
    USER = "user"


class Reach(Enum):
    """Which of these a setting listens to."""

    ANYWHERE = "anywhere"
    TRUSTED = "in a project's directory only once the user trusts it"
    NOT_PROJECT = "never a repository's own settings"
    OFF_ONLY = "a repository's own settings may say false, never true"
    NOT_REPOSITORY = "never a file in the project's directory"
    START = "policy, command line and environment only"


@dataclass(frozen=True, slots=True)
class Key:
    """One setting."""

    name: str
    kind: Kind
    field: str = ""
    """Path to its field in `Settings` where that does not follow from the name."""
    reach: Reach = Reach.ANYWHERE
    aliases: tuple[str, ...] = ()
    """Variables of existing harnesses; nacre's own name wins (M7)."""
    adds_up: bool = False
    """A list to which every source adds, instead of the strongest deciding."""

    @property
    def variable(self) -> str:
        return PREFIX + _snake(self.name.removeprefix("switches.")).replace(".", "_").upper()

    @property
    def path(self) -> tuple[str, ...]:
        return tuple((self.field or _snake(self.name)).split("."))


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


SECONDS = Number(low=0.1, high=86_400, is_whole=False)
"""Up to a day: longer than that is a slip, not a wish."""
DOLLARS = Number(low=0, high=1_000_000, is_whole=False)
PAID_TOKENS = Number(low=0, high=1_000_000_000_000)
"""What a cap can be: a day of many sessions pays for far more tokens than any window holds."""
MODES = ("default", "acceptEdits", "bypassPermissions")
_AUTO = {"keep_warm", "recall_selector", "extract", "dream"}

_KEYS = (
    Key("home", Word(), reach=Reach.START, aliases=("CLAUDE_CONFIG_DIR",)),
    Key("model", Word()),
    Key("smallModel", Word()),
    Key("fallbackModel", Word()),
    *(Key(f"roles.{role.name}", Word()) for role in fields(Roles)),
    Key("anthropic.baseUrl", Address(), reach=Reach.TRUSTED, aliases=("ANTHROPIC_BASE_URL",)),
    Key("openai.baseUrl", Address(), reach=Reach.TRUSTED, aliases=("OPENAI_BASE_URL",)),
    Key("maxOutputTokens", Number(), aliases=("CLAUDE_CODE_MAX_OUTPUT_TOKENS",)),
    Key("maxTurns", Number(high=100_000)),
    Key("cacheTtl", Word(("5m", "1h", "mixed", "auto"))),
    Key("maxContextTokens", Number(low=1_000), aliases=("CLAUDE_CODE_MAX_CONTEXT_TOKENS",)),
    Key("autocompact.pct", Number(high=100, is_whole=False), aliases=("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",)),
    Key("autocompact.window", Number(low=1_000), aliases=("CLAUDE_CODE_AUTO_COMPACT_WINDOW",)),
    Key("retry.tries", Number(high=100)),
    Key("retry.maxWaitSeconds", SECONDS),
    Key("keepWarm.maxUsd", Number(low=0, high=1_000, is_whole=False), reach=Reach.TRUSTED),
    Key("keepWarm.maxShare", Number(low=0, high=1, is_whole=False), reach=Reach.TRUSTED),
    Key("keepWarm.maxRefreshes", Number(high=4), reach=Reach.TRUSTED),
    Key("keepWarm.marginSeconds", Number(low=1, high=299, is_whole=False)),
    *(
        key
        for scope in ("turn", "session", "day")
        for key in (
            Key(f"spend.{scope}Usd", DOLLARS, reach=Reach.TRUSTED),
            Key(f"spend.{scope}Tokens", PAID_TOKENS, reach=Reach.TRUSTED),
        )
    ),
    Key("tools.timeoutSeconds", SECONDS),
    Key("tools.maxTimeoutSeconds", SECONDS),
    Key("offload.maxChars", Number(low=1_000)),
    Key("offload.roundChars", Number(low=1_000)),
    Key("offload.perTool", Counts()),
    Key("microcompact.keep", Number()),
    Key("microcompact.idleSeconds", SECONDS),
    Key("microcompact.minGainUsd", Number(low=0, high=1_000, is_whole=False)),
    Key("microcompact.pinTool", Flag()),
    Key("notes.always", Flag()),
    Key("notes.firstTokens", Number(low=1_000)),
    Key("notes.growthTokens", Number(low=500)),
    Key("notes.growthShare", Number(low=0, high=1, is_whole=False)),
    Key("notes.minCalls", Number(high=1_000)),
    Key("notes.sectionTokens", Number(low=100, high=100_000)),
    Key("notes.totalTokens", Number(low=1_000, high=200_000)),
    Key("compaction.tailTokens", Number(high=1_000_000)),
    Key("compaction.wordsTokens", Number(high=1_000_000)),
    Key("compaction.pastTokens", Number(high=1_000_000)),
    Key("compaction.summarySeconds", SECONDS),
    Key("compaction.summaryTokens", Number(low=1_000, high=64_000)),
    Key("compaction.maxFiles", Number(high=100)),
    Key("compaction.fileTokens", Number(high=1_000_000)),
    Key("compaction.filesTokens", Number(high=1_000_000)),
    Key("extract.mode", Word(("off", "suggest", "auto")), reach=Reach.NOT_PROJECT),
    Key("extract.nonInteractive", Flag(), reach=Reach.TRUSTED),
    Key("extract.remote", Flag(), reach=Reach.NOT_PROJECT),
    Key("extract.everyTurns", Number(high=1_000)),
    Key("dream.minHours", Number(low=0, high=8_760, is_whole=False)),
    Key("dream.minSessions", Number(low=0, high=1_000)),
    Key("dream.maxRemovedShare", Number(low=0, high=1, is_whole=False), reach=Reach.TRUSTED),
    Key("dream.maxTokens", PAID_TOKENS, reach=Reach.TRUSTED),
    Key("dream.maxSeconds", Number(low=1, high=3_000, is_whole=False)),
    Key(
        "agents.maxDepth",
        Number(high=10),
        reach=Reach.TRUSTED,
        aliases=("CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH",),
    ),
    Key(
        "agents.maxAtOnce",
        Number(high=1_000),
        reach=Reach.TRUSTED,
        aliases=("CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS",),
    ),
    Key("agents.stallSeconds", SECONDS),
    Key("agents.resultChars", Number(low=1_000, high=160_000), aliases=("TASK_MAX_OUTPUT_LENGTH",)),
    Key("agents.progressSeconds", SECONDS, reach=Reach.TRUSTED),
    Key("agents.teammates", Word(("in-process", "process"))),
    Key("permissions.allow", Words(), reach=Reach.TRUSTED, adds_up=True),
    Key("permissions.ask", Words(), adds_up=True),
    Key("permissions.deny", Words(), adds_up=True),
    Key("permissions.defaultMode", Word(MODES), reach=Reach.TRUSTED),
    Key("permissions.additionalDirectories", Words(), reach=Reach.TRUSTED, adds_up=True),
    *(Key(f"switches.{switch.name}", Flag(switch.name in _AUTO)) for switch in fields(Switches)),
    Key("autoMemoryEnabled", Flag(), field="memory.enabled", reach=Reach.OFF_ONLY),
    Key("autoMemoryDirectory", Word(), field="memory.directory", reach=Reach.NOT_PROJECT),
    Key("memoryHome", Word(), field="memory.home", reach=Reach.NOT_REPOSITORY),
    Key(
        "disableAutoMemory",
        Flag(),
        field="memory.disabled",
        reach=Reach.NOT_REPOSITORY,
        aliases=("CLAUDE_CODE_DISABLE_AUTO_MEMORY",),
    ),
    Key("simple", Flag(), field="memory.simple", reach=Reach.NOT_REPOSITORY, aliases=("CLAUDE_CODE_SIMPLE",)),
    Key("remote", Flag(), field="memory.remote", reach=Reach.NOT_REPOSITORY, aliases=("CLAUDE_CODE_REMOTE",)),
    Key(
        "remoteMemoryDir",
        Word(),
        field="memory.remote_directory",
        reach=Reach.NOT_REPOSITORY,
        aliases=("CLAUDE_CODE_REMOTE_MEMORY_DIR",),
    ),
    Key(
        "memoryPathOverride",
        Word(),
        field="memory.path_override",
        reach=Reach.NOT_REPOSITORY,
        aliases=("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE",),
    ),
    Key(
        "memoryExtraGuidelines",
        Prose(),
        field="memory.extra_guidelines",
        reach=Reach.NOT_REPOSITORY,
        aliases=("CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES",),
    ),
    Key("memory.mode", Word(("topics", "daily")), reach=Reach.NOT_PROJECT),
    Key("memory.index", Flag(), reach=Reach.NOT_PROJECT),
    Key("memory.team", Flag(), reach=Reach.OFF_ONLY),
    Key("memory.teamRemote", Word(), reach=Reach.NOT_REPOSITORY),
    Key("env", Table(is_words=True), field="environ", reach=Reach.TRUSTED),
    Key("hooks", Table(), reach=Reach.TRUSTED),
    Key("commands", Table(), reach=Reach.TRUSTED),
    Key("mcpServers", Table(), reach=Reach.TRUSTED),
    Key("models", Table(), reach=Reach.TRUSTED),
)

KEYS = {key.name: key for key in _KEYS}
"""Every setting by its name, in the order `nacre doctor` shows them."""

GROUPS = frozenset(name.rpartition(".")[0] for name in KEYS) - {""}
"""Objects that hold settings, such as `roles`."""

OTHER_VARIABLES = frozenset({"DEBUG", "MCP_TOKEN"})
"""Variables of ours that are not settings, without the prefix."""
