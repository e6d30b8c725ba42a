"""List what leaves the machine and to whom (M27), from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nacre.errors import ConfigError
from nacre.settings import Settings

if TYPE_CHECKING:
    from nacre.providers.choose import ModelChoice

VENDORS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
"""Hosts of the vendors if no address is configured."""
HERE = "nowhere"
_LOOPBACK = frozenset({"localhost", "::1"})
_TALK = "what is said, files the model reads, instructions, memories that are not local-only"


@dataclass(frozen=True, slots=True)
class DataSent:
    """One destination of data."""

    what: str
    to: str
    """The receiver; `nowhere` if this destination is not in use."""
    detail: str


def ways_out(settings: Settings, choice: ModelChoice | None) -> list[DataSent]:
    """Return every possible destination, including those not in use."""
    return [
        *_providers(settings, choice),
        *_servers(settings),
        _team(settings),
        _own_memory(settings),
        DataSent("web pages", "any host", "WebFetch asks for addresses that the model names")
        if settings.switches.web_fetch
        else DataSent("web pages", HERE, "WebFetch is off"),
        DataSent("commands", HERE, "Bash runs in a sandbox without a network")
        if settings.sandbox.enabled and not settings.sandbox.network
        else DataSent(
            "commands", "any host", "what a command that you allow sends, it sends; nacre does not see it"
        ),
        _telemetry(settings),
    ]


def _telemetry(settings: Settings) -> DataSent:
    """nacre sends no telemetry itself; a user may configure an OpenTelemetry SDK."""
    address = settings.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if not address:
        return DataSent(
            "telemetry", HERE, "nothing is sent, unless you start nacre with an OpenTelemetry SDK"
        )
    from nacre.session.telemetry import captures_content

    words = "and the words of what was said" if captures_content() else "no words of what was said"
    return DataSent(
        "telemetry", host_of(address), f"if an OpenTelemetry SDK is set up: times, figures, {words}"
    )


def _providers(settings: Settings, choice: ModelChoice | None) -> list[DataSent]:
    from nacre.app.recall_once import small_model_of
    from nacre.providers.choose import choose

    if choice is None:
        return [DataSent("conversation", HERE, "no model is configured that can be used")]
    ways = [_provider("conversation", choice, settings)]
    for name, what in (
        (settings.fallback_model, "conversation, as a fallback"),
        (small_model_of(settings, choice), "side work"),
    ):
        if not name:
            continue
        try:
            ways.append(_provider(what, choose(name, settings.environ), settings))
        except ConfigError:
            continue  # no key, so nothing goes there
    return list(dict.fromkeys(ways))


def _provider(what: str, choice: ModelChoice, settings: Settings) -> DataSent:
    if choice.provider_name == "embedded":
        return DataSent(what, HERE, "nothing leaves: the embedded engine answers on this machine")
    from nacre.providers.choose import address_of

    address = address_of(choice, settings.environ) or VENDORS[choice.provider_name]
    host = host_of(address)
    where = " (this machine)" if is_loopback(host) else ""
    return DataSent(what, f"{host}{where}", f"{choice.model}: {_TALK}")


def _servers(settings: Settings) -> list[DataSent]:
    """MCP servers; a configuration that cannot be read is reported elsewhere, and no server is started."""
    ways = []
    for name, entry in sorted(settings.mcp_servers.items()):
        if not isinstance(entry, dict) or entry.get("disabled") is True:
            continue
        url = entry.get("url")
        command = entry.get("command")
        if isinstance(url, str):
            ways.append(DataSent(f"MCP server {name}", host_of(url), "what the model passes to its tools"))
        elif isinstance(command, str):
            detail = "what the model passes to its tools; whether it sends that on is up to it"
            ways.append(DataSent(f"MCP server {name}", f"the program {command} here", detail))
    return ways


def _own_memory(settings: Settings) -> DataSent:
    remote = settings.memory.sync_remote
    if not (settings.memory.is_on and remote):
        return DataSent("own memory", HERE, "memory.syncRemote names no place for other machines")
    detail = "all memories of yours; never one with a credential or marked local-only"
    address = remote.removeprefix("server:")
    return DataSent("own memory", host_of(address) if "://" in address else remote.rpartition("@")[2], detail)


def _team(settings: Settings) -> DataSent:
    memory = settings.memory
    if not (memory.is_on and memory.team):
        return DataSent("team memory", HERE, "it is off")
    if not memory.team_remote:
        return DataSent("team memory", HERE, "no place to share it through is set")
    detail = "memories moved to the team; never one with a credential or marked local-only"
    remote = memory.team_remote
    return DataSent("team memory", host_of(remote) if "://" in remote else remote.rpartition("@")[2], detail)


def host_of(address: str) -> str:
    """Return the host of an address without user name and password."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.hostname or 'an address that cannot be read'}{port}"


def is_loopback(host: str) -> bool:
    bare = host.rpartition(":")[0] or host
    return bare in _LOOPBACK or bare.startswith("127.")
