"""Rewrites prompts.lock: one line per prompt with its path, sha256 and number of characters."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "nacre"
LOCK = ROOT / "prompts.lock"


def current() -> str:
    """What the lock file should say now."""
    return "".join(f"{_line(path)}\n" for path in sorted(PACKAGE.glob("**/prompts/*.md")))


def _line(path: Path) -> str:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{path.relative_to(PACKAGE).as_posix()} {digest} {len(content.decode())}"


if __name__ == "__main__":
    LOCK.write_text(current(), encoding="utf-8", newline="\n")
    print(f"{LOCK.name}: {current().count(chr(10))} prompts")
