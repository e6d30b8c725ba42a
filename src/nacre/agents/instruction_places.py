"""Where the settings say that instructions are, and what the person agreed to beside them (M22, M23)."""

from __future__ import annotations

from nacre.memory.instruction_files import InstructionPaths
from nacre.settings import Settings
from nacre.settings.consent import consented


def instruction_paths(settings: Settings) -> InstructionPaths:
    """What a session's instructions are looked for with."""
    return InstructionPaths(
        home=settings.home,
        cwd=settings.cwd,
        root=settings.project_root,
        allow_outside=consented(settings.home, settings.project_root),
    )
