"""What each model costs, holds and caches (P5): one dated table of data, read once, overridable."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, cast, get_args

from nacre.errors import ConfigError
from nacre.messages.blocks import Json, JsonObject
from nacre.messages.media import PICTURE_RULES
from nacre.messages.usage import Usage
from nacre.prompts import packaged_file

CacheKind = Literal["markers", "boundaries", "intervals", "none"]
"""What determines where a cached prefix ends: the client, the latest message, a token interval, nothing."""

ApiKind = Literal["chat", "responses"]
"""Which of OpenAI's APIs a model is asked through."""

ThinkingLevel = Literal["off", "low", "medium", "high"]
"""How much a model thinks before it answers, the same for all vendors (P8)."""
THINKING_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)

PER_MILLION = 1_000_000
"""Prices are quoted per this many tokens."""
LONG_WINDOW = 1_000_000
"""What the `[1m]` suffix of a model name asks for."""
DEFAULT_WINDOW = 200_000
"""The assumed window of an unknown model."""

RESERVE_TOKENS = 20_000
RESERVE_SHARE = 0.10
"""Reserved for the reply: a summary is shorter than this in 99.99 of 100 cases."""
AUTOCOMPACT_TOKENS = 13_000
AUTOCOMPACT_SHARE = 0.065
"""Distance of compaction from the effective window, so that it starts before a request is refused."""
WARNING_TOKENS = 20_000
WARNING_SHARE = 0.10
"""Distance of the warning from compaction."""
BLOCKING_TOKENS = 3_000
BLOCKING_SHARE = 0.015
"""Distance from the effective window within which nothing is sent, because estimates are inexact."""

_VERSION_SUFFIX = re.compile(r"(-\d{8}|-\d{4}-\d{2}-\d{2}|-latest|-v\d+(:\d+)?|@[\w.-]+|:[\w.-]+)*$")
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,4})?")
_REGION_PREFIX = re.compile(r"^(?:[\w-]+/|(?:us|eu|apac|global)\.)?(?:anthropic[./])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTier:
    """USD per million tokens for requests whose whole prompt is larger than `above_prompt_tokens`."""

    above_prompt_tokens: int = 0
    input: float = 0.0
    output: float = 0.0
    write_5m: float = 0.0
    """A write for the provider's ordinary lifetime (30 minutes at OpenAI)."""
    write_1h: float = 0.0
    """A write for its longer lifetime (12 hours at OpenAI)."""
    read: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """Everything nacre knows about one model; the numbers come from the table, never from code."""

    model: str
    provider: str = "unknown"
    known: bool = False
    """False for a name that is not in the table; then there is no price either."""
    note: str = ""
    """What about this row is not confirmed."""
    window: int = 128_000
    max_output: int = 8_192
    prices: tuple[PriceTier, ...] = ()
    """Cheapest prompt size first; empty when the price is not known."""
    cache: CacheKind = "none"
    max_markers: int = 0
    min_cacheable: int = 0
    """A shorter prefix is silently not cached."""
    lookback: int = 0
    """How many positions the provider walks back from a marker."""
    collapse_runs: bool = False
    """A run of tool calls, or of tool results, counts as one position."""
    interval: int = 0
    round_to: int = 1
    ttl_seconds: int = 0
    strips_old_thinking: bool = False
    """Thinking before the last text of the user is not shown to the model."""
    keeps_thinking: bool = False
    """Clearing thinking keeps all of it unless told otherwise."""
    config_rendered_first: bool = False
    """The thinking and effort settings stand before the tools, so that changing them loses everything."""
    binds_thinking: bool = False
    system_messages: bool = False
    server_edits: bool = False
    """The provider can delete tool results from its cache; no layer asks for it."""
    structured_output: bool = False
    images: bool = False
    """Takes pictures; a line of text replaces them for other models."""
    documents: bool = False
    """Takes PDF files."""
    pictures: str = ""
    """How the tokens of a picture are counted: a rule of `picture_tokens`; empty if that is not known."""
    tool_search: bool = False
    """Takes tools whose definitions are left out of the prompt until a tool result refers to them (P12)."""
    thinking: bool = False
    compaction: bool = False
    """The provider offers compaction blocks of its own; no layer asks for them."""
    forced_tool_choice: bool = False
    counts_tokens: bool = False
    refreshes: bool = False
    """A request that asks for no output reads the cache, and what it read lives on (C8b)."""
    default_effort: str = ""
    efforts: str = ""
    """The values of the provider's effort parameter that the model takes, separated by spaces."""
    thinking_form: str = ""
    """How a level of thinking is sent: `adaptive` or `budget` at Anthropic, `effort` elsewhere."""
    thinking_off: str = ""
    """How thinking is switched off: the value to send, `omit` to send nothing; empty if it cannot be."""
    thinks: bool = False
    """The model thinks if a request says nothing about it."""
    signs_calls: bool = False
    """Tool calls carry a signature of the thought before them, without which they are refused later."""
    long_window_beta: str = ""
    """The beta header without which the window of a million tokens is refused."""
    api: ApiKind = "chat"
    """For models of OpenAI's APIs."""
    chat_completions: bool = True
    """False for a model that only the Responses API serves."""

    @property
    def unseen_media(self) -> frozenset[str]:
        """The kinds of block that the model does not take: `image` and `document`."""
        seen = {"image": self.images, "document": self.documents}
        return frozenset(kind for kind, takes in seen.items() if not takes)

    @property
    def cache_markers(self) -> bool:
        """Takes `cache_control` on blocks."""
        return self.cache == "markers" and self.max_markers > 0

    @property
    def thinking_levels(self) -> tuple[ThinkingLevel, ...]:
        """The levels of thinking that can be set; all of them for a model that is not in the table."""
        if not self.known:
            return THINKING_LEVELS
        efforts = self.efforts.split()
        return tuple(
            level for level in THINKING_LEVELS if (self.thinking_off if level == "off" else level in efforts)
        )

    def tier(self, prompt_tokens: int) -> PriceTier | None:
        """The prices of a request of this size: past a cliff the whole request costs more."""
        due = [tier for tier in self.prices if prompt_tokens > tier.above_prompt_tokens]
        return due[-1] if due else (self.prices[0] if self.prices else None)


def profile(model: str) -> ModelProfile:
    """What the table in force says about a model; asked several times for every request."""
    found = _profiles.get(model)
    if found is None:
        found = _profiles[model] = _in_force[0].profile(model)
    return found


def model_names() -> list[str]:
    """Return the names in the table in force, in its order."""
    return list(_in_force[0].models)


def check_thinking(model: str, level: ThinkingLevel | None) -> None:
    """Raise `ConfigError` if a model cannot think at this level (P8)."""
    levels = profile(model).thinking_levels
    if level is None or level in levels:
        return
    advice = f"set thinking to {' or '.join(levels)}, or leave it unset" if levels else "leave it unset"
    raise ConfigError(f"{model} cannot be asked with thinking={level}; {advice}")


def use_model_table(rules: ModelTable) -> None:
    """Let another table decide for this process: the shipped one with a person's own rows over it."""
    _in_force[0] = rules
    _profiles.clear()


def cost(profile: ModelProfile, usage: Usage) -> float | None:
    """USD of one request, or None when the model's price is not known."""
    tier = profile.tier(usage.prompt)
    if tier is None:
        return None
    return (
        usage.input * tier.input
        + (usage.cache_write - usage.cache_write_1h) * tier.write_5m
        + usage.cache_write_1h * tier.write_1h
        + usage.cache_read * tier.read
        + usage.output * tier.output
    ) / PER_MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Sizes of a request, in tokens, at which something happens."""

    window: int
    effective: int
    warning: int
    autocompact: int
    blocking: int


def window_size(model: str, ceiling: int | None = None) -> int:
    """Return how many tokens a model accepts; a `ceiling` lowers that, and holds for an unknown model."""
    found = profile(model)
    is_long = model.endswith("[1m]")
    if not (found.known or is_long):
        return ceiling or DEFAULT_WINDOW
    size = LONG_WINDOW if is_long else found.window
    return min(size, ceiling) if ceiling else size


def thresholds(
    window: int, *, max_output: int, percent: float | None = None, compact_window: int | None = None
) -> Thresholds:
    """Return the thresholds of a window; `percent` and `compact_window` can only lower compaction."""
    effective = _effective(window, max_output)
    compact_at = _compact_at(window, max_output)
    if compact_window:
        compact_at = min(compact_at, _compact_at(min(window, compact_window), max_output))
    if percent:
        compact_at = min(compact_at, int(effective * percent / 100))
    return Thresholds(
        window=window,
        effective=effective,
        warning=max(0, compact_at - _smaller(window, WARNING_TOKENS, WARNING_SHARE)),
        autocompact=compact_at,
        blocking=effective - _smaller(window, BLOCKING_TOKENS, BLOCKING_SHARE),
    )


def _effective(window: int, max_output: int) -> int:
    return window - min(max_output, _smaller(window, RESERVE_TOKENS, RESERVE_SHARE))


def _compact_at(window: int, max_output: int) -> int:
    return _effective(window, max_output) - _smaller(window, AUTOCOMPACT_TOKENS, AUTOCOMPACT_SHARE)


def _smaller(window: int, tokens: int, share: float) -> int:
    return min(tokens, round(window * share))


@dataclass(frozen=True, slots=True)
class ModelTable:
    """A table of models: rows by name, other names for them, and what to assume about the rest."""

    date: str
    source: str
    defaults: Mapping[str, JsonObject]
    unknown: Mapping[str, JsonObject]
    aliases: Mapping[str, str]
    models: Mapping[str, JsonObject] = field(default_factory=dict)

    def profile(self, model: str) -> ModelProfile:
        """The row for a name as people write it: dated, with a region or a `[1m]` suffix, or unknown."""
        name, long = _bare(model)
        key = self._row(name)
        if key is None:
            found = _parse(model, {**self._assumed(name), "prices": []})
        else:
            found = replace(_parse(model, self._flat(key)), known=True)
        return replace(found, window=max(found.window, LONG_WINDOW)) if long else found

    def _row(self, name: str) -> str | None:
        undated = _VERSION_SUFFIX.sub("", name)
        hyphens = undated.replace(".", "-")
        for candidate in (name, undated, hyphens):
            key = self.aliases.get(candidate, candidate)
            if key in self.models:
                return key
        return None

    def _flat(self, key: str, seen: tuple[str, ...] = ()) -> JsonObject:
        row = self.models[key]
        like = row.get("like")
        if like is None:
            return {**self.defaults.get(str(row.get("provider")), {}), **row}
        if not isinstance(like, str) or like not in self.models or like in (*seen, key):
            raise ConfigError(
                f"model table: {key}.like names no other row: {like!r}; name a model of the table"
            )
        return {**self._flat(like, (*seen, key)), **row}

    def _assumed(self, name: str) -> JsonObject:
        prefix = max((p for p in self.unknown if name.startswith(p)), key=len, default="")
        row = self.unknown.get(prefix, {})
        return {**self.defaults.get(str(row.get("provider")), {}), **row}


def with_overrides(table: Json, rules: ModelTable | None = None) -> ModelTable:
    """The table with a user's rows over it: `{"models": {name: {field: value}}, "aliases": {…}}`.

    A row of a known model changes only the fields it names; every row is checked at once.
    """
    base = SHIPPED_TABLE if rules is None else rules
    if not isinstance(table, dict) or set(table) - {"models", "aliases", "date", "source"}:
        raise ConfigError('model table: expected {"models": {...}, "aliases": {...}}; fix the override file')
    models = _objects(table, "models")
    aliases = _strings(table, "aliases")
    rows = dict(base.models)
    for name, row in models.items():
        # An override starts from the row of this name, of a model like it, or of its provider.
        known = base._row(name)
        inherited: JsonObject = base.models[name] if known == name else {"like": known}
        if known is None:
            inherited = {} if "like" in row else {"provider": base._assumed(name).get("provider")}
        rows[name] = {**inherited, **row}
    merged = replace(base, models=rows, aliases={**base.aliases, **aliases})
    for name in models:
        merged.profile(name)
    return merged


def _bare(model: str) -> tuple[str, bool]:
    name = model.strip().lower()
    long = name.endswith("[1m]")
    return _REGION_PREFIX.sub("", name.removesuffix("[1m]").strip()), long


def _parse(model: str, row: JsonObject) -> ModelProfile:
    known: JsonObject = {}
    for key, value in row.items():
        if key == "prices":
            if not isinstance(value, list):
                raise ConfigError(f"model table: {model}.prices must be a list of price tiers")
            tiers = sorted((_tier(model, item) for item in value), key=lambda one: one.above_prompt_tokens)
            known[key] = cast("Json", tuple(tiers))
        elif key != "like":
            known[key] = _checked(model, key, value)
    return ModelProfile(model=model, **known)  # type: ignore[arg-type]  # every value was checked against its field


_KINDS: dict[str, str] = {
    f.name: str(f.type) for f in fields(ModelProfile) if f.name not in {"model", "known"}
}
_WANTED = {"int": "a whole number", "bool": "true or false", "str": "a string"}


def _checked(model: str, key: str, value: Json) -> Json:
    kind = _KINDS.get(key)
    if kind is None:
        raise ConfigError(f"model table: {model}.{key} is not a field; remove it or correct its name")
    if kind == "CacheKind":
        if value in {"markers", "boundaries", "intervals", "none"}:
            return value
        raise ConfigError(f"model table: {model}.cache must be markers, boundaries, intervals or none")
    if kind == "ApiKind":
        if value in {"chat", "responses"}:
            return value
        raise ConfigError(f"model table: {model}.api must be chat or responses")
    if key == "pictures":
        name, *numbers = str(value).split() or [""]
        is_rule = len(numbers) == PICTURE_RULES.get(name, -1) and all(map(_NUMBER.fullmatch, numbers))
        if value != "" and not is_rule:
            kinds = ", ".join(PICTURE_RULES)
            raise ConfigError(f"model table: {model}.pictures must be one of {kinds} with its numbers")
    accepted = (
        (kind == "int" and isinstance(value, int) and not isinstance(value, bool) and value >= 0)
        or (kind == "bool" and isinstance(value, bool))
        or (kind == "str" and isinstance(value, str))
    )
    if not accepted:
        raise ConfigError(f"model table: {model}.{key} must be {_WANTED[kind]}, not {value!r}")
    return value


def _tier(model: str, item: Json) -> PriceTier:
    names = {f.name for f in fields(PriceTier)}
    if not isinstance(item, dict) or not set(item) <= names or not {"input", "output"} <= set(item):
        raise ConfigError(
            f"model table: {model}.prices: a tier has input, output and some of {sorted(names)}"
        )
    numbers: dict[str, float] = {}
    for key, value in item.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise ConfigError(f"model table: {model}.prices.{key} must be a number from 0 up, not {value!r}")
        numbers[key] = value
    above = int(numbers.pop("above_prompt_tokens", 0))
    # A table that names no cache prices means that cached tokens cost as much as others.
    prices = {"write_5m": numbers["input"], "write_1h": numbers["input"], "read": numbers["input"], **numbers}
    return PriceTier(above_prompt_tokens=above, **prices)


def _objects(table: JsonObject, key: str) -> dict[str, JsonObject]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"model table: {key} must be an object; fix the override file")
    rows: dict[str, JsonObject] = {}
    for name, row in value.items():
        if not isinstance(row, dict):
            raise ConfigError(f"model table: {key}.{name} must be an object; fix the override file")
        rows[name] = row
    return rows


def _strings(table: JsonObject, key: str) -> dict[str, str]:
    value = table.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ConfigError(f"model table: {key} must map names to names; fix the override file")
    return {name: str(item) for name, item in value.items()}


def _shipped() -> ModelTable:
    text = packaged_file("nacre.cache", "data/models.json").decode()
    table: JsonObject = json.loads(text)
    return ModelTable(
        date=str(table["date"]),
        source=str(table["source"]),
        defaults=_objects(table, "defaults"),
        unknown=_objects(table, "unknown"),
        aliases=_strings(table, "aliases"),
        models=_objects(table, "models"),
    )


SHIPPED_TABLE = _shipped()
_in_force = [SHIPPED_TABLE]
_profiles: dict[str, ModelProfile] = {}
"""The table that comes with nacre."""
