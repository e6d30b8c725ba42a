"""`/pin` and `/unpin`: results by name, kept and let go."""

from __future__ import annotations

import pytest

from nacre.agents.session import Base, Session
from nacre.cli.slash_results import pin_result, unpin_result
from nacre.layers.l2_microcompact.pins import pinned
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import rounds


async def test_results_are_listed_pinned_and_let_go(
    clock: FrozenClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Layer 2: a result the person pinned is never cleared."""
    session = Session(Base.of("m", "s", []), rounds(25), clock=clock)
    await pin_result(session, "")
    listed = capsys.readouterr().out
    assert "c5" in listed and "c24" in listed and "c4 " not in listed and "/pin last" in listed
    await pin_result(session, "last")
    await pin_result(session, "c7")
    assert pinned(session.view) == {"c24", "c7"}
    assert 'pinned c7: Bash {"n":7}' in capsys.readouterr().out
    await unpin_result(session, "")
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[:2]] == ["c7", "c24"]
    await unpin_result(session, "24")
    assert pinned(session.view) == {"c7"}


async def test_a_name_that_fits_none_or_several_is_explained(
    clock: FrozenClock, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session(Base.of("m", "s", []), rounds(25), clock=clock)
    await unpin_result(session, "c1")
    assert "no result in view is pinned" in capsys.readouterr().out
    await pin_result(session, "2")
    assert "several results have an id with '2' in it" in capsys.readouterr().err
    await pin_result(session, "zebra")
    assert "no result in view has an id with 'zebra' in it" in capsys.readouterr().err
    assert not pinned(session.view)
    await pin_result(Session(Base.of("m", "s", []), clock=clock), "last")
    assert "there is no tool result in view yet" in capsys.readouterr().out
