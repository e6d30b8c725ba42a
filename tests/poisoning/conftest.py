"""What is recalled here must not hang on how busy the machine is."""

from __future__ import annotations

import pytest

from nacre.context import recall as recalling

PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a session a message waits milliseconds for its memories, and late ones come with the next (R9)."""
    monkeypatch.setattr(recalling, "LOCAL_CAP_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(recalling, "WARM_SECONDS", PATIENCE_SECONDS)
