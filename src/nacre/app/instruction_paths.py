"""Where the settings say that instruction files are, and which files outside the project were allowed.

Separate from the startup context, so that `nacre doctor` starts quickly.
"""

from __future__ import annotations

from nacre.memory.instructions.files import InstructionPaths
from nacre.settings import Settings
from nacre.settings.trust import consented


def instruction_paths(settings: Settings) -> InstructionPaths:
    """What a session's instructions are looked for with."""
    return InstructionPaths(
        home=settings.home,
        cwd=settings.cwd,
        root=settings.project_root,
        allow_outside=consented(settings.home, settings.project_root),
    )
