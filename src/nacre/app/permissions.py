"""The policy of a session: rules from the settings, and what the person has allowed for good.

Such answers are kept in nacre's home, by project, and never in the project itself: a repository must not be
able to bring its own permissions along.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from nacre.errors import ConfigError, StoreError
from nacre.messages.blocks import Json
from nacre.settings import Settings
from nacre.settings.values import ListEntry
from nacre.store import disk
from nacre.store.locks import one_writer
from nacre.tools.policy import PermissionPolicy
from nacre.tools.rules import Effect, PermissionRule, parse_rule

FILE = "permissions.json"


class Learned:
    """What the person has allowed for good in one project."""

    def __init__(self, home: Path, project: Path) -> None:
        self._path = home / FILE
        self._project = str(project)

    def rules(self) -> tuple[PermissionRule, ...]:
        return tuple(
            parse_rule(text, "allow", str(self._path)) for text in self._read().get(self._project, [])
        )

    def add(self, rule: PermissionRule) -> None:
        """Remember a rule; a file that cannot be read is left alone, and `ConfigError` says so."""
        try:
            with one_writer(self._path):
                known = self._read()
                texts = known.get(self._project, [])
                if rule.text in texts:
                    return
                known[self._project] = [*texts, rule.text]
                text = json.dumps(known, indent=2, sort_keys=True) + "\n"
                disk.replace_file(self._path, text.encode(), temp_name=f".{FILE}.tmp")
        except StoreError as error:
            raise ConfigError(str(error)) from error
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(f"{self._path}: cannot be written ({why}); check its permissions") from error

    def _read(self) -> dict[str, list[str]]:
        try:
            value = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{self._path}: cannot be read ({error}); correct it or move it away"
            ) from error
        if not _is_listing(value):
            raise ConfigError(
                f"{self._path}: must hold a list of rules for each project; correct it or move it away"
            )
        return dict(value)


def _is_listing(value: Json) -> bool:
    """Whether it says for each project which rules hold; anything else would be lost by writing it again."""
    return isinstance(value, dict) and all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in value.values()
    )


def policy_of(settings: Settings, learned: Learned) -> PermissionPolicy:
    """What the settings and the person's own answers say."""
    given = settings.permissions
    return PermissionPolicy(
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


def _rules(effect: Effect, listed: tuple[ListEntry, ...]) -> list[PermissionRule]:
    return [parse_rule(each.text, effect, each.origin) for each in listed]


def _directory(listed: ListEntry, root: Path) -> Path:
    return Path(os.path.realpath(root / Path(listed.text).expanduser()))
