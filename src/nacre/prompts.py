"""Load and render prompt files, byte for byte.

A prompt is what the model reads: no front matter, no dedent, no stripping except exactly one final newline.
Slots look like `{{ name }}`; filling them is one pass and strict both ways.
"""

from __future__ import annotations

import pkgutil
import re

SLOT = re.compile(r"\{\{ ([A-Za-z_][A-Za-z0-9_]*) \}\}")


def load(package: str, name: str) -> str:
    """Return the text of `<package>/prompts/<name>.md`; call it at import, to fail early."""
    # Bytes, because text mode would convert carriage returns, which the lock file has hashed.
    return packaged_file(package, f"prompts/{name}.md").decode("utf-8").removesuffix("\n")


def packaged_file(package: str, path: str) -> bytes:
    """Return a file that is part of a package."""
    # Not `importlib.resources`, which takes far longer to import than the file to read.
    data = pkgutil.get_data(package, path)
    if data is None:
        raise FileNotFoundError(f"{package} has no {path}")
    return data


def render(template: str, **slots: str) -> str:
    """Return the template with every slot filled in one pass; inserted text is not expanded."""
    wanted = set(SLOT.findall(template))
    if missing := sorted(wanted - slots.keys()):
        raise ValueError(f"no text given for the prompt's slots: {', '.join(missing)}")
    if unused := sorted(slots.keys() - wanted):
        raise ValueError(f"the prompt has no such slots: {', '.join(unused)}")
    return SLOT.sub(lambda slot: slots[slot[1]], template)
