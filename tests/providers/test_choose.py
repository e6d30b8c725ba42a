"""Which model answers without configuration, and in which role (P2, P3)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nacre.errors import ConfigError
from nacre.providers.base import Request, capabilities_of, complete
from nacre.providers.choose import (
    ModelChoice,
    build,
    choose,
    preload,
    small_model,
)
from nacre.providers.embedded.provider import EmbeddedProvider
from nacre.providers.retry import RetryingProvider

A = {"ANTHROPIC_API_KEY": "a"}
OA = {"OPENAI_API_KEY": "o"}
LOCAL = {"OPENAI_BASE_URL": "http://localhost:11434/v1"}


@pytest.mark.parametrize(
    ("model", "environ", "provider", "chosen"),
    [
        (None, {}, "embedded", "embedded"),
        (None, {"ANTHROPIC_API_KEY": ""}, "embedded", "embedded"),
        (None, A, "anthropic", "claude-sonnet-5-5"),
        (None, OA, "openai", "gpt-6.1-terra"),
        (None, A | OA | LOCAL, "anthropic", "claude-sonnet-5-5"),
        (None, A | OA | {"NACRE_MODEL": "gpt-6-luna"}, "openai", "gpt-6-luna"),
        ("claude-opus-5-5", A | OA | {"NACRE_MODEL": "gpt-6-luna"}, "anthropic", "claude-opus-5-5"),
        ("haiku", A, "anthropic", "claude-haiku-5-5"),
        ("claude-next-9", A, "anthropic", "claude-next-9"),
        ("gpt-99", OA, "openai", "gpt-99"),
        ("o9-mini", OA, "openai", "o9-mini"),
        ("embedded", A, "embedded", "embedded"),
        ("openai/anything", OA, "openai", "anything"),
        ("openai/claude-opus-5-5", LOCAL, "openai", "claude-opus-5-5"),
        ("anthropic/mine", A, "anthropic", "mine"),
        ("llama3.3", LOCAL, "openai", "llama3.3"),
        ("meta/llama-3.3", LOCAL | A, "openai", "meta/llama-3.3"),
        (None, LOCAL | {"NACRE_MODEL": "llama3.3"}, "openai", "llama3.3"),
    ],
)
def test_the_model_asked_for_comes_before_the_keys_that_happen_to_be_set(
    model: str | None, environ: dict[str, str], provider: str, chosen: str
) -> None:
    """P3: --model, NACRE_MODEL, Anthropic's key, OpenAI's key or server, the embedded engine."""
    choice = choose(model, environ)
    assert (choice.provider_name, choice.model) == (provider, chosen)
    assert "\n" not in choice.reason
    assert chosen in choice.reason or choice.provider_name == "embedded"


def test_a_local_server_is_offered_and_never_used_silently() -> None:
    choice = choose(None, {})
    assert choice.offer is not None
    assert "OPENAI_BASE_URL" in choice.offer
    assert choose(None, A).offer is None


@pytest.mark.parametrize(
    ("model", "environ", "advice"),
    [
        ("claude-opus-5-5", OA, "set ANTHROPIC_API_KEY"),
        ("gpt-6-luna", A, "set OPENAI_API_KEY or OPENAI_BASE_URL"),
        ("llama3.3", A, "write anthropic:MODEL, openai:MODEL, gemini:MODEL, ollama:MODEL"),
        ("openai/", OA, "no provider is known"),
        (None, LOCAL, "set NACRE_MODEL"),
    ],
)
def test_a_model_that_cannot_be_reached_is_one_line_of_advice(
    model: str | None, environ: dict[str, str], advice: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        choose(model, environ)
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_choice_is_built_with_patience() -> None:
    for environ, name in ((A, "anthropic"), (OA, "openai")):
        provider = build(choose(None, environ), environ)
        assert isinstance(provider, RetryingProvider)
        assert provider.name == name
        await provider.close()
    assert isinstance(build(choose(None, {}), {}), EmbeddedProvider)


def test_choosing_and_building_load_no_vendor() -> None:
    """Start-up must not pay for packages that only a first call needs."""
    program = """
import sys
from nacre.providers.choose import build, choose
for environ in ({"ANTHROPIC_API_KEY": "a"}, {"OPENAI_API_KEY": "o"}):
    build(choose(None, environ), environ)
print([name for name in ("anthropic", "openai") if name in sys.modules])
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_a_vendor_can_be_loaded_ahead_of_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patched because both are loaded by other tests; one that is missing is told of by the first call."""
    asked: list[str] = []

    def missing(name: str) -> None:
        asked.append(name)
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("nacre.providers.choose.import_module", missing)
    for environ in (A, OA, {}):
        preload(choose(None, environ))
    assert asked == ["anthropic", "openai"]


@pytest.mark.parametrize(("environ", "package"), [(A, "anthropic"), (OA, "openai")])
async def test_a_vendor_that_is_not_installed_is_one_line_of_advice(
    environ: dict[str, str], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Patched because the development environment always has both packages.
    monkeypatch.setitem(sys.modules, package, None)
    provider = build(choose(None, environ), environ)
    with pytest.raises(ConfigError, match=rf"pip install .*\[{package}\]'$"):
        await complete(provider, Request(model="m", messages=[]))


def test_the_small_model_is_one_the_same_provider_serves() -> None:
    def chosen(environ: dict[str, str], model: str | None = None) -> str:
        return small_model(choose(model, environ))

    assert chosen(A) == "claude-haiku-5-5"
    assert chosen(OA) == "gpt-6-luna"
    assert chosen({}) == "embedded"
    assert chosen(LOCAL, "llama3.3") == "llama3.3"
    assert (
        small_model(ModelChoice(provider_name="openai", model="claude-opus-5-5", reason=""))
        == "claude-opus-5-5"
    )


def test_capabilities_are_those_of_the_rules_table() -> None:
    """P5."""
    sonnet = capabilities_of("claude-sonnet-5-5")
    assert (sonnet.window, sonnet.binds_thinking, sonnet.cache_markers) == (1_000_000, True, True)
    assert capabilities_of("claude-haiku-4-5").window == 200_000
    assert capabilities_of("claude-haiku-4-5[1m]").window == 1_000_000
    assert not capabilities_of("gpt-6.1-terra").cache_markers
