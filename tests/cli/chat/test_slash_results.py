"""`/pin` and `/unpin`: results by name, kept and let go."""

from __future__ import annotations

import pytest

from nacre.cli.chat.slash import pin_result, unpin_result
from nacre.messages.results import pinned
from nacre.session.session import Base, Session
from nacre.testing import FrozenClock
from tests.layers.l2_microcompact.scenes import rounds


async def test_results_are_listed_pinned_and_let_go(
    clock: FrozenClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Layer 2: a result the person pinned is never cleared."""
    session = Session(Base("m", "s", []), rounds(25), clock=clock)
    await pin_result(session, "")
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines()[:20]] == [str(n) for n in range(20, 0, -1)]
    assert '{"n":5}' in listed and '{"n":24}' in listed and '{"n":4}' not in listed and "/pin last" in listed
    assert max(map(len, listed.splitlines())) <= 80
    await pin_result(session, "last")
    await pin_result(session, "18")
    assert pinned(session.view) == {"c24", "c7"}
    assert 'pinned: Bash {"n":7}' in capsys.readouterr().out
    await unpin_result(session, "")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:2]] == ["18", "1"]
    await unpin_result(session, "1")
    await pin_result(session, "c12")
    assert pinned(session.view) == {"c7", "c12"}


async def test_a_name_that_fits_none_or_several_is_explained(
    clock: FrozenClock, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session(Base("m", "s", []), rounds(25), clock=clock)
    await unpin_result(session, "c1")
    assert "no result in view is pinned" in capsys.readouterr().out
    await pin_result(session, "c")
    assert "several results match 'c'" in capsys.readouterr().err
    for wanted in ("zebra", "26", "0"):
        await pin_result(session, wanted)
        assert f"no result matches {wanted!r}" in capsys.readouterr().err
    assert not pinned(session.view)
    await pin_result(Session(Base("m", "s", []), clock=clock), "last")
    assert "there is no tool result in view yet" in capsys.readouterr().out
