"""The policy of a session: rules from the settings, and what the person has allowed for good.

Such answers are kept in nacre's home, by project, and never in the project itself: a repository must not be
able to bring its own permissions along.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from nacre.errors import ConfigError
from nacre.settings import Settings
from nacre.settings.values import Listed
from nacre.tools.policy import Policy
from nacre.tools.rules import Effect, Rule, parse_rule

FILE = "permissions.json"


class Learned:
    """What the person has allowed for good in one project."""

    def __init__(self, home: Path, project: Path) -> None:
        self._path = home / FILE
        self._project = str(project)

    def rules(self) -> tuple[Rule, ...]:
        return tuple(parse_rule(text, "allow", "your answer") for text in self._read().get(self._project, []))

    def add(self, rule: Rule) -> None:
        """Remember a rule; a file that cannot be read is left alone, and the person is told."""
        known = self._read()
        texts = known.get(self._project, [])
        if rule.text in texts:
            return
        known[self._project] = [*texts, rule.text]
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._path.with_suffix(f".{os.getpid()}.tmp")
        beside.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        beside.chmod(0o600)
        beside.replace(self._path)

    def _read(self) -> dict[str, list[str]]:
        try:
            value = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self._path}: cannot be read ({error}); correct it or move it away"
            ) from error
        if not isinstance(value, dict):
            raise ConfigError(f"{self._path}: must be a JSON object; correct it or move it away")
        return {
            str(project): [str(text) for text in texts]
            for project, texts in value.items()
            if isinstance(texts, list)
        }


def policy_of(settings: Settings, learned: Learned) -> Policy:
    """What the settings and the person's own answers say."""
    given = settings.permissions
    return Policy(
        root=settings.project_root,
        rules=(
            *_rules("deny", given.deny),
            *_rules("ask", given.ask),
            *_rules("allow", given.allow),
            *learned.rules(),
        ),
        mode=given.default_mode,
        directories=tuple(_directory(each, settings.project_root) for each in given.additional_directories),
    )


def _rules(effect: Effect, listed: tuple[Listed, ...]) -> list[Rule]:
    return [parse_rule(each.text, effect, each.origin) for each in listed]


def _directory(listed: Listed, root: Path) -> Path:
    return Path(os.path.realpath(root / Path(listed.text).expanduser()))
