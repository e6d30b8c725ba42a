"""Which project a call is about: the command line, the client's roots, the directory; nothing beyond."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.integrations.mcp_server.base import ServerOptions
from tests.integrations.mcp_server.serving import client, inside, kept, refused, said


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    found = tuple(tmp_path / name for name in ("one", "two", "elsewhere"))
    for each in found:
        each.mkdir()
    return found  # type: ignore[return-value]


@pytest.mark.slow
async def test_the_first_root_is_meant_unless_a_call_names_another(places: tuple[Path, Path, Path]) -> None:
    one, two, elsewhere = places
    await kept(one, "The first project ships in May.", name="Shipping")
    await kept(two, "The second project ships in June.", name="Shipping")
    async with client(elsewhere, roots=[one, two]) as talk:
        assert "May" in await said(talk, "memory_get", name="shipping")
        assert "June" in await said(talk, "memory_get", name="shipping", project=str(two))
        assert "June" in await said(talk, "memory_get", name="shipping", project="two")


async def test_a_client_reaches_no_project_that_it_was_not_let_into(places: tuple[Path, Path, Path]) -> None:
    """An agent that was talked into it must not read the memories of all projects of this machine."""
    one, two, elsewhere = places
    await kept(elsewhere, "The other customer is called Nemo.", name="Customer")
    async with inside(one, roots=[one, two]) as talk:
        for wanted in (str(elsewhere), f"{one}/../elsewhere", "elsewhere", "/", "~"):
            why = await refused(talk, "memory_get", name="customer", project=wanted)
            assert "is no project of this client" in why
    async with inside(two, options=ServerOptions(projects=(one,), cwd=two), roots=[elsewhere]) as talk:
        assert "no memory is called" in await refused(talk, "memory_get", name="customer")
        assert "no project" in await refused(talk, "memory_get", name="customer", project=str(elsewhere))


async def test_without_roots_the_directory_is_the_project(places: tuple[Path, Path, Path]) -> None:
    one, _, _ = places
    await kept(one, "The first project ships in May.", name="Shipping")
    async with inside(one) as talk:
        assert "May" in await said(talk, "memory_get", name="shipping")
