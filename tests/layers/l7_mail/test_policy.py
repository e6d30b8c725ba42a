"""Where a letter goes, read off its address (A3)."""

from __future__ import annotations

import pytest

from nacre.errors import MailError
from nacre.layers.l7_mail.policy import AgentAddress, AllAgents, SocketAddress, address


@pytest.mark.parametrize(
    ("to", "meant"),
    [
        ("main", AgentAddress("main")),
        ("reviewer-2", AgentAddress("reviewer-2")),
        ("*", AllAgents()),
        ("uds:/run/me/a.sock", SocketAddress("/run/me/a.sock")),
        ("uds:/run/a:b.sock", SocketAddress("/run/a:b.sock")),
    ],
)
def test_an_address_is_one_of_four_kinds(to: str, meant: object) -> None:
    assert address(to) == meant


@pytest.mark.parametrize(
    "to",
    [
        "",
        "**",
        "uds:",
        "bridge: ",
        "bridge:7\nf",
        "tcp:host",
        ":x",
        "uds:/a\0b",
        "uds:/a\nb",
        "uds:/" + "x" * 400,
        "../a",
    ],
)
def test_what_is_no_address_is_refused(to: str) -> None:
    with pytest.raises(MailError) as refused:
        address(to)
    assert "\n" not in str(refused.value)


def test_a_sender_without_address_cannot_be_answered() -> None:
    with pytest.raises(MailError, match="no address to answer to"):
        address("other:main")
