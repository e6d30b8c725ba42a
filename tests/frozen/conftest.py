"""What the frozen behaviour is recorded with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.frozen.scenes import Scene, new_scene, steady


@pytest.fixture(autouse=True)
def steady_machine() -> Iterator[None]:
    with steady():
        yield


@pytest.fixture
def scene() -> Iterator[Scene]:
    with new_scene() as made:
        yield made
