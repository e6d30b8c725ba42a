"""Which source wins, for every setting and every set of sources that speak."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nacre.settings import Settings, load, trust
from nacre.settings.schema import KEYS, SettingsLevel

SAMPLES = {
    "model": ["m1", "m2", "m3", "m4", "m5", "m6"],
    "roles.select": ["a", "b", "c", "d", "e", "f"],
    "maxTurns": [1, 2, 3, 4, 5, 6],
    "autocompact.pct": [1.5, 2.0, 3.0, 4.0, 5.0, 6.0],
    "switches.clear_idle": [True, False, True, False, False, True],
    "switches.dream": ["auto", True, False, "auto", True, False],
    "openai.baseUrl": [f"http://host{n}" for n in range(6)],
}
"""One value per source, strongest first, for one setting of each kind."""


@given(
    name=st.sampled_from(sorted(SAMPLES)),
    speaking=st.sets(st.sampled_from(list(SettingsLevel))),
    nested=st.booleans(),
)
def test_the_strongest_source_that_speaks_wins_and_is_named(
    name: str, speaking: set[SettingsLevel], nested: bool
) -> None:
    """policy > command line > environment > local > project > user > default."""
    said = {layer: SAMPLES[name][n] for n, layer in enumerate(SettingsLevel) if layer in speaking}
    with tempfile.TemporaryDirectory() as folder:
        world = Path(folder).resolve()
        files = {
            SettingsLevel.POLICY: world / "policy.json",
            SettingsLevel.LOCAL: world / "work/.nacre/settings.local.json",
            SettingsLevel.PROJECT: world / "work/.nacre/settings.json",
            SettingsLevel.USER: world / "home/settings.json",
        }
        for layer, path in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if layer in said:
                path.write_text(json.dumps(document(name, said[layer], nested=nested)))
        trust(world / "home", world / "work")
        environ = {"NACRE_HOME": str(world / "home")}
        if SettingsLevel.ENVIRONMENT in said:
            environ[KEYS[name].variable] = str(said[SettingsLevel.ENVIRONMENT])
        cli = {name: said[SettingsLevel.CLI]} if SettingsLevel.CLI in said else {}

        settings = load(world / "work", environ, cli=cli, policy_path=files[SettingsLevel.POLICY])

        assert settings.problems == ()
        winner = next((layer for layer in SettingsLevel if layer in said), None)
        if winner is None:
            blank = Settings(home=settings.home, cwd=settings.cwd, project_root=settings.project_root)
            assert (value(settings, name), settings.origin(name)) == (value(blank, name), "default")
        else:
            where = {SettingsLevel.CLI: "", SettingsLevel.ENVIRONMENT: f" {KEYS[name].variable}"}
            origin = winner.value + where.get(winner, f" {files.get(winner)}")
            assert (value(settings, name), settings.origin(name)) == (said[winner], origin)


def document(name: str, value: object, *, nested: bool) -> dict[str, object]:
    group, _, leaf = name.rpartition(".")
    return {group: {leaf: value}} if group and nested else {name: value}


def value(settings: Settings, name: str) -> object:
    found: object = settings
    for word in KEYS[name].path:
        found = getattr(found, word)
    return found


def test_nothing_configured_is_all_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, {"HOME": str(tmp_path)}, policy_path=tmp_path / "none.json")
    here = Settings(home=tmp_path / ".nacre", cwd=tmp_path, project_root=tmp_path)
    assert settings == replace(here, environ=settings.environ, origins=settings.origins)
    assert dict(settings.environ) == {"HOME": str(tmp_path)}


def test_every_setting_has_its_own_variable_and_a_field() -> None:
    """Every setting also as NACRE_…: two under one name could not both be set."""
    here = Settings(home=Path("/h"), cwd=Path("/c"), project_root=Path("/c"))
    variables = [variable for key in KEYS.values() for variable in (key.variable, *key.aliases)]
    assert len(variables) == len(set(variables))
    for name in KEYS:
        value(here, name)  # raises when the table names a field that is not there


def test_names_become_variables_by_rule() -> None:
    named = {
        "model": "NACRE_MODEL",
        "autocompact.pct": "NACRE_AUTOCOMPACT_PCT",
        "autocompact.window": "NACRE_AUTOCOMPACT_WINDOW",
        "maxContextTokens": "NACRE_MAX_CONTEXT_TOKENS",
        "switches.clear_idle": "NACRE_CLEAR_IDLE",
        "roles.notes": "NACRE_ROLES_NOTES",
        "anthropic.baseUrl": "NACRE_ANTHROPIC_BASE_URL",
        "disableAutoMemory": "NACRE_DISABLE_AUTO_MEMORY",
        "memoryPathOverride": "NACRE_MEMORY_PATH_OVERRIDE",
        "remoteMemoryDir": "NACRE_REMOTE_MEMORY_DIR",
    }
    assert {name: KEYS[name].variable for name in named} == named
