"""The paths of instruction files from the settings, and which files outside the project were allowed.

Separate from the startup context, so that `nacre doctor` starts quickly.
"""

from __future__ import annotations

from nacre.memory.instructions.files import InstructionPaths
from nacre.settings import Settings
from nacre.settings.trust import consented


def instruction_paths(settings: Settings) -> InstructionPaths:
    """Return where the instructions of a session are searched."""
    return InstructionPaths(
        home=settings.home,
        cwd=settings.cwd,
        root=settings.project_root,
        allow_outside=consented(settings.home, settings.project_root),
    )
