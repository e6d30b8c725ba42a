"""Writes the golden files anew: `python -m tests.frozen.record`, with options of pytest such as `-k chat`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.frozen.golden import RECORD


def main() -> int:
    os.environ[RECORD] = "1"
    return int(pytest.main([str(Path(__file__).parent), "-q", "-p", "no:randomly", *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
