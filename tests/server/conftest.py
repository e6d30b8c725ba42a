"""Tests of access and of memories run on files and on PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from nacre.server.keys import LOCAL_TENANT
from tests.postgres import new_database, new_tenant
from tests.server import serving


@pytest.fixture(params=["files", "postgres"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The store behind the server; a test of one store names it with `parametrize`."""
    if request.param == "postgres":
        address = new_database()
        asyncio.run(new_tenant(address, LOCAL_TENANT))
        monkeypatch.setattr(serving, "DATABASE", address)
    return str(request.param)
