"""A person's own template and prompt for notes, read once; what cannot be used is said (C13)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nacre import prompts
from nacre.layers.l3_notes.template import TEMPLATE, Template

FOLDER = Path("session-memory", "config")
"""Below the home."""
UPDATE = prompts.load("nacre.layers.l3_notes", "update")
_SLOT = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What notes look like and how they are asked for."""

    template: Template = TEMPLATE
    prompt: str = UPDATE
    problems: tuple[str, ...] = ()
    """For the person: one line for each file that is not used."""

    @staticmethod
    def of(home: Path) -> Form:
        """As the files in a home want it, each by itself."""
        problems: list[str] = []
        prompt, text = (_read(home / FOLDER / name, problems) for name in ("prompt.md", "template.md"))
        template = Template.of(text) if text else TEMPLATE
        if template is None:
            where = home / FOLDER / "template.md"
            problems.append(f"{where} needs different `# Headings`; the usual template is used instead.")
        return Form(template=template or TEMPLATE, prompt=prompt or UPDATE, problems=tuple(problems))


def filled(text: str, **slots: str) -> str:
    """A person's prompt with what it asks for: one pass, and what nobody knows stays as it stands."""
    return _SLOT.sub(lambda slot: slots.get(slot[1], slot[0]), text)


def asks_for(text: str, name: str) -> bool:
    """Whether a prompt has this slot."""
    return name in _SLOT.findall(text)


def _read(path: Path, problems: list[str]) -> str:
    try:
        return path.read_bytes().decode().replace("\r\n", "\n").removesuffix("\n")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        problems.append(f"{path} cannot be read ({error}); the usual one is used instead.")
        return ""
