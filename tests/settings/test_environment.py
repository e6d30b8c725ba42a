"""Variables: aliases of other harnesses, words for yes and no, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.errors import ConfigError
from nacre.settings import Settings, SettingsProblem, load


def read(tmp_path: Path, **environ: str) -> Settings:
    home = (
        {}
        if "NACRE_HOME" in environ or "CLAUDE_CONFIG_DIR" in environ
        else {"NACRE_HOME": str(tmp_path / "home")}
    )
    return load(tmp_path, {"HOME": str(tmp_path), **home, **environ}, policy_path=tmp_path / "none.json")


ALIASES = [
    ("NACRE_HOME", "CLAUDE_CONFIG_DIR", "home", "/a", "/b"),
    (
        "NACRE_MEMORY_PATH_OVERRIDE",
        "CLAUDE_COWORK_MEMORY_PATH_OVERRIDE",
        "memoryPathOverride",
        "/a/b",
        "/c/d",
    ),
    (
        "NACRE_MEMORY_EXTRA_GUIDELINES",
        "CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES",
        "memoryExtraGuidelines",
        "Be\nbrief.",
        "Be\nlong.",
    ),
    ("NACRE_REMOTE_MEMORY_DIR", "CLAUDE_CODE_REMOTE_MEMORY_DIR", "remoteMemoryDir", "/a", "/b"),
    ("NACRE_REMOTE", "CLAUDE_CODE_REMOTE", "remote", "1", "0"),
    ("NACRE_SIMPLE", "CLAUDE_CODE_SIMPLE", "simple", "1", "0"),
    ("NACRE_DISABLE_AUTO_MEMORY", "CLAUDE_CODE_DISABLE_AUTO_MEMORY", "disableAutoMemory", "1", "0"),
]


@pytest.mark.parametrize(("ours", "theirs", "name", "a", "b"), ALIASES)
def test_another_harness_s_variable_counts_and_ours_wins(
    tmp_path: Path, ours: str, theirs: str, name: str, a: str, b: str
) -> None:
    """M7."""
    alone = read(tmp_path, **{theirs: b})
    both = read(tmp_path, **{ours: a, theirs: b})
    blank = read(tmp_path, **{ours: " ", theirs: b})
    assert [s.origin(name) for s in (alone, both, blank)] == [
        f"environment {theirs}",
        f"environment {ours}",
        f"environment {theirs}",
    ]
    assert alone == read(tmp_path, **{theirs: b})
    assert both.problems == alone.problems == ()


def test_the_home_is_where_the_variable_says(tmp_path: Path) -> None:
    """M1."""
    homes = [
        read(tmp_path, NACRE_HOME="~/x").home,
        read(tmp_path, NACRE_HOME="~").home,
        read(tmp_path, NACRE_HOME="/srv/n", CLAUDE_CONFIG_DIR="/elsewhere").home,
        read(tmp_path, CLAUDE_CONFIG_DIR="/elsewhere").home,
    ]
    assert homes == [tmp_path / "x", tmp_path, Path("/srv/n"), Path("/elsewhere")]
    with pytest.raises(ConfigError, match=r"^environment NACRE_HOME: must be an absolute path"):
        read(tmp_path, NACRE_HOME="some/where")


@pytest.mark.parametrize(
    ("environ", "cli", "is_on"),
    [
        ({}, {}, True),
        ({"NACRE_DISABLE_AUTO_MEMORY": "1"}, {}, False),
        ({"NACRE_DISABLE_AUTO_MEMORY": "true", "NACRE_AUTO_MEMORY_ENABLED": "1"}, {}, False),
        ({"NACRE_DISABLE_AUTO_MEMORY": "0", "NACRE_SIMPLE": "1"}, {}, True),
        ({"NACRE_DISABLE_AUTO_MEMORY": "false", "NACRE_AUTO_MEMORY_ENABLED": "0"}, {}, True),
        ({"NACRE_DISABLE_AUTO_MEMORY": "0"}, {"disableAutoMemory": True}, False),
        ({"NACRE_SIMPLE": "1"}, {}, False),
        ({}, {"simple": True}, False),
        ({"NACRE_REMOTE": "1"}, {}, False),
        ({"NACRE_REMOTE": "1", "NACRE_REMOTE_MEMORY_DIR": "/m"}, {}, True),
        ({"NACRE_AUTO_MEMORY_ENABLED": "off"}, {}, False),
        ({"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1", "NACRE_DISABLE_AUTO_MEMORY": "0"}, {}, True),
    ],
)
def test_the_first_rule_that_applies_switches_memory(
    tmp_path: Path, environ: dict[str, str], cli: dict[str, bool], is_on: bool
) -> None:
    """M7."""
    settings = load(tmp_path, {"HOME": str(tmp_path), **environ}, cli=cli, policy_path=tmp_path / "none")
    assert settings.memory.is_on is is_on


def test_a_bad_variable_is_one_clear_line_and_is_left_out(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        NACRE_MAX_TURNS="many",
        NACRE_CACHE_TTL="2h",
        NACRE_CLEAR_IDLE="maybe",
        NACRE_DREAM="sometimes",
        NACRE_AUTOCOMPACT_PCT="nan",
        NACRE_OPENAI_BASE_URL="localhost:11434",
        NACRE_MODLE="x",
    )
    place = "environment NACRE_"
    assert sorted(settings.problems, key=lambda p: p.place) == [
        SettingsProblem(f"{place}AUTOCOMPACT_PCT", "must be a number from 1 to 100, not 'nan'", True),
        SettingsProblem(f"{place}CACHE_TTL", """must be "5m" or "1h" or "mixed" or "auto", not '2h'""", True),
        SettingsProblem(f"{place}CLEAR_IDLE", "must be true or false, not 'maybe'", True),
        SettingsProblem(f"{place}DREAM", """must be true, false or "auto", not 'sometimes'""", True),
        SettingsProblem(f"{place}MAX_TURNS", "must be a whole number from 1 to 100,000, not 'many'", True),
        SettingsProblem(f"{place}MODLE", "no such setting; did you mean 'NACRE_MODEL'?"),
        SettingsProblem(
            f"{place}OPENAI_BASE_URL",
            "must be an address that starts with http:// or https://, not 'localhost:11434'",
            True,
        ),
    ]
    assert (settings.max_turns, settings.cache_ttl, settings.switches.clear_idle) == (100, "5m", True)
    with pytest.raises(ConfigError, match=r"must be .* \(and 5 more; see `nacre doctor`\)$"):
        settings.require_sound()


def test_a_warning_alone_does_not_stop_a_run(tmp_path: Path) -> None:
    settings = read(tmp_path, NACRE_MODLE="x")
    settings.require_sound()
    assert len(settings.problems) == 1


def test_thresholds_come_from_their_variables(tmp_path: Path) -> None:
    """C3."""
    settings = read(
        tmp_path,
        NACRE_MAX_CONTEXT_TOKENS="100_000",
        NACRE_AUTOCOMPACT_PCT="72.5",
        NACRE_AUTOCOMPACT_WINDOW="60000",
    )
    assert (settings.max_context_tokens, settings.autocompact.pct, settings.autocompact.window) == (
        100_000,
        72.5,
        60_000,
    )


def test_vendor_addresses_in_force_stand_in_the_environment_that_providers_read(tmp_path: Path) -> None:
    """Policy beats the vendor's own variable, also for code that reads only the environment."""
    policy = tmp_path / "policy.json"
    policy.write_text('{"anthropic": {"baseUrl": "https://proxy.example"}}')
    environ = {
        "HOME": str(tmp_path),
        "ANTHROPIC_BASE_URL": "https://other.example",
        "OPENAI_BASE_URL": "http://o",
    }
    settings = load(tmp_path, environ, policy_path=policy)
    assert (settings.anthropic.base_url, settings.openai.base_url) == ("https://proxy.example", "http://o")
    assert settings.environ["ANTHROPIC_BASE_URL"] == "https://proxy.example"
