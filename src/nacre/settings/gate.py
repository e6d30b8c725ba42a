"""What a repository may set: its files come from strangers until the user trusts the directory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from nacre.settings.schema import Layer, Reach
from nacre.settings.sources import Given, Source
from nacre.settings.values import Problem

_OUTSIDE = (Layer.POLICY, Layer.CLI, Layer.ENVIRONMENT)
_REPOSITORY = (Layer.LOCAL, Layer.PROJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Judges each value by where it comes from and what it could do."""

    root: Path
    trust_path: Path
    is_trusted: bool
    is_local_committed: bool
    """The local file came with the repository after all, so that it counts as the project's."""

    def admitted(self, source: Source) -> Source:
        """The source without what it may not set; each refusal is a problem that says why."""
        if source.layer in _OUTSIDE:
            return source
        is_env_open = self.is_trusted or source.layer not in _REPOSITORY
        problems = list(source.problems)
        return replace(
            source,
            given=tuple(self._allowed(source.given, problems)),
            environ=source.environ if is_env_open else {},
            environ_given=tuple(self._allowed(source.environ_given, problems)) if is_env_open else (),
            problems=tuple(problems),
        )

    def _allowed(self, givens: Iterable[Given], problems: list[Problem]) -> list[Given]:
        allowed = []
        for given in givens:
            why = self._refusal(given)
            if why:
                place = given.origin.partition(" ")[2]
                problems.append(Problem(place, f"{given.key.name!r} is ignored: {why}"))
            else:
                allowed.append(given)
        return allowed

    def _refusal(self, given: Given) -> str:
        """Why this value is not taken; empty when it is."""
        is_repository = given.layer in _REPOSITORY
        is_project = given.layer is Layer.PROJECT or (given.layer is Layer.LOCAL and self.is_local_committed)
        match given.key.reach:
            case Reach.ANYWHERE:
                return ""
            case Reach.TRUSTED:
                how = (
                    f"this directory is not trusted; to trust it, add {str(self.root)!r} to {self.trust_path}"
                )
                return how if is_repository and not self.is_trusted else ""
            case Reach.NOT_PROJECT:
                return "a repository may not say where memory is written" if is_project else ""
            case Reach.OFF_ONLY:
                return "a repository may only switch this off" if is_project and given.value is True else ""
            case Reach.NOT_REPOSITORY:
                return "it cannot be set in a project's directory" if is_repository else ""
            case Reach.START:
                return f"it can be set only by policy, command line or {given.key.variable}"
            case _ as unknown:
                assert_never(unknown)
