"""Files: bad ones are refused in one line that names the place; unknown keys only warn."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.errors import ConfigError
from nacre.settings import Settings, SettingsProblem, load


def read(tmp_path: Path, text: str | bytes) -> Settings:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "settings.json").write_bytes(text.encode() if isinstance(text, str) else text)
    return load(tmp_path, {"NACRE_HOME": str(home)}, policy_path=tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"model": "x",\n  "maxTurns": }', ":2:15: not valid JSON"),
        ("{", ":1:2: not valid JSON"),
        ("[]", ":1:1: must be a JSON object"),
        ('{"maxTurns": NaN}', ": a value cannot be read"),
        ('{"maxTurns": ' + "9" * 5000 + "}", ": a value cannot be read"),
        ('{"model": ' + "[" * 100_000, ": "),
        (b'{"model": "\xff"}', ": not UTF-8 at byte 11"),
        (" " * 1_000_001, ": is not a plain file of at most 1,000,000 bytes"),
    ],
)
def test_a_broken_file_is_one_line_with_its_place(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    line = str(caught.value)
    assert line.startswith(f"{tmp_path}/home/settings.json{says}")
    assert "\n" not in line and len(line) < 400


def test_a_device_in_place_of_a_file_does_not_hang_the_start(tmp_path: Path) -> None:
    (tmp_path / ".nacre").mkdir()
    os.mkfifo(tmp_path / ".nacre/settings.json")
    settings = load(tmp_path, {"HOME": str(tmp_path / "h")}, policy_path=tmp_path / "none")
    assert "is not a plain file" in settings.problems[0].line


@pytest.mark.parametrize("text", ["", "  \n", "{}", '\ufeff{"model": null}'])
def test_an_empty_file_says_nothing(tmp_path: Path, text: str) -> None:
    settings = read(tmp_path, text)
    assert (settings.model, settings.problems) == (None, ())


def test_unknown_keys_warn_and_wrong_types_are_errors(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        json.dumps(
            {
                "modle": "x",
                "statusLine": {"type": "x"},
                "roles": {"main": "x", "select": 3},
                "switches": True,
                "maxTurns": 2.5,
                "cacheTtl": "1d",
                "retry": {"tries": True},
                "env": {"A": "sk-secret", "B": 1},
                "apiKey": "sk-secret",
                "smallModel": "ok",
            }
        ),
    )
    file = str(tmp_path / "home/settings.json")
    assert settings.problems == (
        SettingsProblem(file, "no setting 'modle'; did you mean 'model'?"),
        SettingsProblem(file, "no setting 'statusLine'"),
        SettingsProblem(file, "no setting 'roles.main'; did you mean 'model'?"),
        SettingsProblem(file, "'roles.select' must be text on one line, not 3", True),
        SettingsProblem(file, "'switches' must be a JSON object", True),
        SettingsProblem(file, "'maxTurns' must be a whole number from 1 to 100,000, not 2.5", True),
        SettingsProblem(file, """'cacheTtl' must be "5m" or "1h" or "mixed" or "auto", not '1d'""", True),
        SettingsProblem(file, "'retry.tries' must be a whole number from 1 to 100, not true", True),
        SettingsProblem(file, "'env' must be a JSON object whose values are text", True),
        SettingsProblem(
            file,
            "'apiKey' is never read from settings: keys are read from the environment, "
            'or from "env" in the user\'s own settings',
            True,
        ),
    )
    assert (settings.small_model, settings.max_turns) == ("ok", 100)


REMOVED = ("clear_economic", "clear_server", "clear_declared", "compact_provider", "collapse", "snip")


def test_a_switch_of_version_0_1_that_is_gone_only_warns(tmp_path: Path) -> None:
    given = {"switches": dict.fromkeys(REMOVED, True), "microcompact": {"minGainUsd": 0.5, "keep": 7}}
    settings = read(tmp_path, json.dumps(given))
    settings.require_sound()
    assert settings.microcompact.keep == 7
    assert len(settings.problems) == len(REMOVED) + 1
    assert all(one.message.startswith("no setting") for one in settings.problems)


def test_keys_in_the_user_s_env_block_reach_the_environment_but_are_never_shown(tmp_path: Path) -> None:
    """A key is only ever in the environment or in the user's or policy's `env`."""
    settings = read(tmp_path, '{"env": {"ANTHROPIC_API_KEY": "sk-1", "NACRE_MODEL": "m"}}')
    file = tmp_path / "home/settings.json"
    assert settings.environ["ANTHROPIC_API_KEY"] == "sk-1"
    assert (settings.model, settings.origin("model")) == ("m", f"user {file} env.NACRE_MODEL")
    assert "sk-1" not in repr(settings)


def test_the_real_environment_beats_a_user_s_env_block_and_policy_beats_both(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/settings.json").write_text('{"env": {"A": "user", "B": "user", "C": "user"}}')
    (tmp_path / "policy.json").write_text('{"env": {"A": "policy"}}')
    environ = {"NACRE_HOME": str(tmp_path / "home"), "A": "real", "B": "real"}
    settings = load(tmp_path, environ, policy_path=tmp_path / "policy.json")
    assert [settings.environ[name] for name in "ABC"] == ["policy", "real", "user"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        "model",
        "roles",
        "switches",
        "env",
        "hooks",
        "maxTurns",
        "cacheTtl",
        "anthropic",
        "autoMemoryEnabled",
    ]
)


@given(st.dictionaries(NAMES | st.text(max_size=8), JSON, max_size=6))
def test_any_json_object_loads_with_one_printable_line_per_problem(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, object]
) -> None:
    try:
        settings = read(tmp_path_factory.mktemp("any"), json.dumps(document))
    except ConfigError:
        return  # NaN and infinity, which Python writes and JSON does not have
    assert all(problem.line.isprintable() and len(problem.line) < 600 for problem in settings.problems)
