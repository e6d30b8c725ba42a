"""The nets under every test: a clean environment, no network but loopback, a prefix that never moves."""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from nacre.messages.view import View
from nacre.session.session import Session
from nacre.testing import FrozenClock, ScriptedProvider, first_moved_block
from tests.scale import scaled

# No deadline: how fast examples are made depends on the machine. In CI the examples are fixed, so that
# a change is judged by what it changed; elsewhere each run tries other ones.
hypothesis_settings.register_profile(
    "nacre",
    deadline=None,
    max_examples=scaled(100),
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
hypothesis_settings.load_profile("nacre")

# A run started by `nohup` or a service ignores SIGHUP, and every program that a test starts would too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

LOOPBACK = ("127.", "localhost", "::1")
FOREIGN_VARIABLES = ("NACRE_", "CLAUDE_", "ANTHROPIC_", "OPENAI_", "OTEL_")
FOLDER_NUMBERS = itertools.count()
TEST_SECONDS = 300 * scaled(1, at_least=1)
"""Limit of one test; the slowest takes a tenth of it on a busy machine. A served model may take any time."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow tests first, so that no worker runs one alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark property tests for `make soak`."""
    if hasattr(getattr(item, "function", None), "hypothesis"):
        item.add_marker(pytest.mark.soak)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that does not end, such as one that waits for a line that no process prints."""

    def expire(*_: object) -> None:
        raise TimeoutError(f"{item.name} did not end within {TEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(0 if item.get_closest_marker("real_model") else TEST_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session", autouse=True)
def flushing_that_does_not_wait() -> Iterator[None]:
    """A flush is still refused for what is no open file, and does not wait for the disk.

    No test can tell: what a killed process has written is there without it, and nobody here cuts the power.
    Patched because tests flush ten thousands of times; processes of their own flush as everywhere.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: os.fstat(file) and None)
        yield


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder of the test's own."""
    return _new_folder(tmp_path_factory, re.sub(r"\W", "_", request.node.name)[:22])


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No setting of the person who runs the tests reaches them, and nothing of theirs is written to."""
    for name in list(os.environ):
        if name.startswith(FOREIGN_VARIABLES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NACRE_HOME", str(_new_folder(tmp_path_factory, "home")))
    if (Path.home() / ".claude" / "settings.json").exists():
        monkeypatch.setenv("NACRE_CLAUDE_SETTINGS", "false")


def _new_folder(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """Numbered here and apart: pytest itself finds each number by looking through all folders made so far."""
    folder = tmp_path_factory.getbasetemp() / "t" / f"{next(FOLDER_NUMBERS)}-{name}"
    folder.mkdir(mode=0o700, parents=True)
    return folder


@pytest.fixture(autouse=True)
def closed_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in nacre needs the network: a connection to anywhere but loopback fails the test.

    Patched because there is no other way to see a connection that must not be attempted.
    """
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
            raise AssertionError(f"a test tried to connect to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def prefix_net(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every request starts with the bytes of the one before, unless the test says why not.

    Patched so that the net holds without any test having to ask for it.
    """
    providers: list[ScriptedProvider] = []
    create = ScriptedProvider.__init__

    def noted(self: ScriptedProvider, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        providers.append(self)

    monkeypatch.setattr(ScriptedProvider, "__init__", noted)
    yield
    assert all(not provider.changed() for provider in providers), (
        "somebody changed a request after sending it"
    )
    if request.node.get_closest_marker("moves_prefix") is None:
        moved = [first_moved_block(provider.requests) for provider in providers]
        assert not any(moved), f"the prefix moved: {next(filter(None, moved))}"


@pytest.fixture(autouse=True)
def replay_net(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After every test the records of every session fold to the view the session had.

    Patched so that the net holds without any test having to ask for it.
    """
    sessions: list[Session] = []
    create = Session.__init__

    def noted(self: Session, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        sessions.append(self)

    monkeypatch.setattr(Session, "__init__", noted)
    yield
    for session in sessions:
        assert View.of(session.transcript.records) == session.view, "replay differs from the live view"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
def home() -> Path:
    return Path(os.environ["NACRE_HOME"])
