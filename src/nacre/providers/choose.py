"""Choose the provider and model from settings and environment (P3), and build the provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Literal, get_args

from nacre.cache.models import SHIPPED_TABLE, ApiKind, profile
from nacre.errors import ConfigError
from nacre.formatting import how_to_install
from nacre.providers.base import Provider
from nacre.providers.retry import RetrySettings, with_retry
from nacre.providers.servers import GEMINI, OPENAI, SERVERS, ServerProfile, is_loopback

ProviderName = Literal["anthropic", "openai", "embedded"]

ANTHROPIC_MAIN = "claude-sonnet-5-5"
"""Strong enough for work with tools, at half the price of larger models, with cheap cache reads."""
ANTHROPIC_SMALL = "claude-haiku-5-5"
"""Side queries are short: far below the size where its price increases."""
OPENAI_MAIN = "gpt-6.1-terra"
"""The middle of its family: tools and a long window at half the price of the next."""
OPENAI_SMALL = "gpt-6-luna"
"""The cheapest model that follows a schema."""
EMBEDDED = "embedded"
"""nacre's own rule-based engine: no network, no key, no language model."""

_SMALL: Mapping[str, str] = {
    "anthropic": ANTHROPIC_SMALL,
    "openai": OPENAI_SMALL,
}
_NAMES: tuple[ProviderName, ...] = get_args(ProviderName)
_API_PREFIXES: Mapping[str, ApiKind] = {"openai-chat": "chat", "openai-responses": "responses"}
_FAMILIES: tuple[tuple[re.Pattern[str], ProviderName], ...] = (
    (re.compile(r"claude", re.IGNORECASE), "anthropic"),
    (re.compile(r"gpt|chatgpt|o\d", re.IGNORECASE), "openai"),
)
_GEMINI = re.compile(r"gemini", re.IGNORECASE)
"""For models that are newer than the rules table."""
_OFFER = (
    "to add a model, run `nacre init`, or set ANTHROPIC_API_KEY or OPENAI_API_KEY; "
    "for a local server, OPENAI_BASE_URL (Ollama: http://localhost:11434/v1) and NACRE_MODEL"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The chosen provider and model, with the reason."""

    provider_name: ProviderName
    model: str
    reason: str
    """One line, shown at start."""
    api: ApiKind | None = None
    """The API that a prefix of the name asks for; None leaves it to the table of models."""
    server: str | None = None
    """The kind of server that a prefix or the family of the name asks for, of those in `SERVERS`."""
    offer: str | None = None
    """How the user can configure a model instead."""


def choose(model: str | None, environ: Mapping[str, str]) -> ModelChoice:
    """Choose the named model, else a model for which the environment has a key, else the embedded engine."""
    if model:
        return _choose_named(model, environ, because="as asked")
    if named := environ.get("NACRE_MODEL"):
        return _choose_named(named, environ, because="NACRE_MODEL")
    if environ.get("ANTHROPIC_API_KEY"):
        return _choice("anthropic", ANTHROPIC_MAIN, "ANTHROPIC_API_KEY is set")
    if environ.get("OPENAI_API_KEY"):
        return _choice("openai", OPENAI_MAIN, "OPENAI_API_KEY is set")
    if url := environ.get("OPENAI_BASE_URL"):
        raise ConfigError(f"OPENAI_BASE_URL is set, but not which model {url} serves: set NACRE_MODEL")
    return ModelChoice(
        provider_name="embedded",
        model=EMBEDDED,
        reason="no language model is configured: the embedded engine answers by rules",
        offer=_OFFER,
    )


def is_remote_model(choice: ModelChoice, environ: Mapping[str, str]) -> bool:
    """Return whether requests are sent to another computer (M27)."""
    if choice.provider_name == "embedded":
        return False
    return not is_loopback(address_of(choice, environ) or "")


def address_of(choice: ModelChoice, environ: Mapping[str, str]) -> str | None:
    """Return the base URL that requests go to; None for the vendor's own."""
    if choice.provider_name == "anthropic":
        return environ.get("ANTHROPIC_BASE_URL")
    return SERVERS.get(choice.server or "", OPENAI).address(environ)


def build(choice: ModelChoice, environ: Mapping[str, str], *, retry: RetrySettings | None = None) -> Provider:
    """Build the provider with retry; the SDK is imported by its first call."""
    silence = retry.silence if retry else None
    match choice.provider_name:
        case "anthropic":
            from nacre.providers.anthropic import AnthropicProvider  # noqa: PLC0415  only the chosen one is imported

            return with_retry(
                AnthropicProvider(
                    api_key=environ.get("ANTHROPIC_API_KEY"),
                    base_url=environ.get("ANTHROPIC_BASE_URL"),
                    timeout=silence,
                ),
                retry,
            )
        case "openai":
            from nacre.providers.openai import OpenAICompatibleProvider  # noqa: PLC0415  as above

            server = SERVERS.get(choice.server or "")
            return with_retry(
                OpenAICompatibleProvider(
                    api_key=(server or OPENAI).key(environ),
                    base_url=address_of(choice, environ),
                    timeout=silence,
                    api=choice.api,
                    server=server,
                ),
                retry,
            )
        case "embedded":
            from nacre.providers.embedded.provider import EmbeddedProvider  # noqa: PLC0415  as above

            return EmbeddedProvider()


def require_installed(choice: ModelChoice) -> None:
    """Raise `ConfigError` if the SDK is not installed; it is not imported."""
    name = choice.provider_name
    if name != EMBEDDED and find_spec(name) is None:
        raise ConfigError(f"{choice.model} needs the {name} package: {how_to_install(name)}")


def preload(choice: ModelChoice) -> None:
    """Import the SDK before the first call, to be run in a thread."""
    if choice.provider_name != EMBEDDED:
        with suppress(ImportError):  # the first call reports what to install
            import_module(choice.provider_name)


def small_model(choice: ModelChoice) -> str:
    """Return the model for side queries; a private server may not have another one than the chosen."""
    return vendor_small_model(choice) or choice.model


def vendor_small_model(choice: ModelChoice) -> str | None:
    """Return the small model of the vendor that serves the chosen one; None if there is none, or unknown."""
    is_vendor = profile(choice.model).provider == choice.provider_name and not choice.server
    return small_model_beside(choice.model) if is_vendor else None


def small_model_beside(model: str) -> str | None:
    """Return the small model of the vendor of a model; None if there is none, or the vendor is not known."""
    return _SMALL.get(profile(model).provider)


def _choose_named(model: str, environ: Mapping[str, str], *, because: str) -> ModelChoice:
    prefix, rest = _split(model)
    if rest and (api := _API_PREFIXES.get(prefix)):
        return replace(_choose_named(f"openai:{rest}", environ, because=because), api=api)
    if server := SERVERS.get(prefix if rest else "gemini" if _is_gemini(model, environ) else ""):
        return _choose_at(server, rest if prefix in SERVERS else model, environ, because=because)
    name, bare = _provider_of(model, environ)
    if name == "anthropic" and not environ.get("ANTHROPIC_API_KEY"):
        raise ConfigError(f"{bare} needs a key: set ANTHROPIC_API_KEY")
    if name == "openai" and not (environ.get("OPENAI_API_KEY") or environ.get("OPENAI_BASE_URL")):
        raise ConfigError(f"{bare} needs a key or a server: set OPENAI_API_KEY or OPENAI_BASE_URL")
    return _choice(name, bare, because)


def _is_gemini(model: str, environ: Mapping[str, str]) -> bool:
    """Return whether a name without a prefix is Google's; a configured server may have such a model, too."""
    return bool(_GEMINI.match(model)) and (not environ.get("OPENAI_BASE_URL") or bool(GEMINI.key(environ)))


def _choose_at(server: ServerProfile, model: str, environ: Mapping[str, str], *, because: str) -> ModelChoice:
    if server.needs_key and not server.key(environ):
        raise ConfigError(f"{model} needs a key: set {' or '.join(server.key_variables)}")
    reason = f"{model} through {server.name} ({because})"
    return ModelChoice(provider_name="openai", model=model, reason=reason, server=server.name)


def _provider_of(model: str, environ: Mapping[str, str]) -> tuple[ProviderName, str]:
    """Return who serves a model and its name there.

    A prefix decides (`anthropic:…`, `openai/…`), then the table of models, the family, a configured server.
    """
    prefix, rest = _split(model)
    if prefix == EMBEDDED:
        return "embedded", EMBEDDED
    for name in _NAMES:
        if prefix == name and rest:
            return name, rest
    bare = SHIPPED_TABLE.aliases.get(model, model)
    row = profile(bare)
    for name in _NAMES:
        if row.known and row.provider == name:
            return name, bare
    for family, name in _FAMILIES:
        if family.match(bare):
            return name, bare
    if environ.get("OPENAI_BASE_URL"):
        return "openai", bare
    raise ConfigError(
        f"no provider is known for {model!r}; write anthropic:MODEL, openai:MODEL, "
        f"{':MODEL, '.join(SERVERS)}:MODEL or embedded (for another server, set OPENAI_BASE_URL)"
    )


def _split(model: str) -> tuple[str, str]:
    """Return the parts before and after the first separator of a model's name."""
    prefix, _, _ = model.replace("/", ":", 1).partition(":")
    return prefix, model[len(prefix) + 1 :]


def _choice(name: ProviderName, model: str, because: str) -> ModelChoice:
    return ModelChoice(provider_name=name, model=model, reason=f"{model} through {name} ({because})")
