"""Scale of property tests and storms: 0.2 in `make test`, 1 in `make test-all`, 20 in `make soak`."""

from __future__ import annotations

import os

SCALE = float(os.environ.get("TEST_SCALE", "1"))
FEWEST = 5
"""Examples that a property test always runs."""


def scaled(count: int, *, at_least: int = FEWEST) -> int:
    """Return `count` examples, rounds or kills in proportion to the scale of this run."""
    return max(at_least, round(count * SCALE))
