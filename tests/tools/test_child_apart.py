"""An agent in a worktree, and whoever works for it: the main checkout is out of reach by every way there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nacre.agents.run import ChildAgent
from nacre.app.open_agent import OpenedAgent
from nacre.testing import Cast, ScriptedProvider, call, say
from nacre.tools.rules import parse_rule
from tests.agents.test_team import opened, order, played, team_of
from tests.app.test_child import repository

OTHERS = "belongs to another checkout"


def let_do_everything(ready: OpenedAgent, *, deny: Sequence[str] = ()) -> None:
    """What is not denied is done without a question."""
    guard = ready.toolset.guard
    guard.policy = replace(guard.policy, mode="bypassPermissions").with_rules(
        parse_rule(rule, "deny") for rule in deny
    )


def writes_into(cwd: Path) -> list[object]:
    return [
        call("Write", file_path=str(cwd / "b.txt"), content="no"),
        call("Bash", command=f"echo no > {cwd}/c.txt"),
    ]


def heard(provider: ScriptedProvider) -> str:
    return str(provider.requests[-1].messages)


async def test_what_a_rule_denies_in_the_project_is_denied_from_its_worktrees_too(tmp_path: Path) -> None:
    """Permissions: whoever works elsewhere may not do more; a rule about a file means all its copies."""
    cwd = repository(tmp_path / "work")
    (cwd / "keys").mkdir()
    (cwd / "keys" / "k").write_text("SECRET-1\n")
    main = ScriptedProvider([order("Read it.", isolation="worktree"), say("Done.")])
    child = ScriptedProvider([
        call("Read", file_path=str(cwd / "keys" / "k")),
        call("Bash", command=f"cat {cwd}/keys/k"),
        call("Read", file_path="a.txt"),
        call("Bash", command="cat a.txt"),
        call("Read", file_path=".gitignore"),
        say("ok"),
    ])  # fmt: skip
    async with opened(tmp_path, Cast(main, {"Read it.": child})) as ready:
        let_do_everything(ready, deny=["Read(keys/**)", f"Read(/{cwd.resolve()}/a.txt)"])
        await played(ready, "Go")
    assert "SECRET-1" not in heard(child)
    assert heard(child).count("'is_error': True") == 4
    assert "home/" in heard(child)


async def test_an_agent_that_works_for_one_in_a_worktree_is_kept_out_as_well(tmp_path: Path) -> None:
    """Spawning: also of the checkouts in between, where it has a worktree of its own."""
    cwd = repository(tmp_path / "work")
    main = ScriptedProvider([order("Begin.", isolation="worktree"), say("Done.")])
    child = ScriptedProvider([order("Help."), order("Far.", isolation="worktree"), say("ok")])
    below, far = (ScriptedProvider([*writes_into(cwd), say("ok")]) for _ in range(2))  # type: ignore[list-item]
    async with opened(tmp_path, Cast(main, {"Begin.": child, "Help.": below, "Far.": far})) as ready:
        let_do_everything(ready)
        await played(ready, "Go")
    assert not (cwd / "b.txt").exists()
    assert not (cwd / "c.txt").exists()
    assert [heard(one).count(OTHERS) for one in (below, far)] == [2, 2]


async def test_a_fork_of_an_agent_in_a_worktree_is_kept_out_as_well(tmp_path: Path) -> None:
    cwd = repository(tmp_path / "work")
    main = ScriptedProvider([order("Begin.", isolation="worktree"), say("Done.")])
    child = ScriptedProvider([
        call("Write", file_path="new.txt", content="mine"), say("ok"), *writes_into(cwd), say("forked"),
    ])  # fmt: skip
    children: list[ChildAgent] = []
    async with opened(tmp_path, Cast(main, {"Begin.": child})) as ready:
        let_do_everything(ready)
        team_of(ready).shared.on_open.append(lambda one, state: children.append(one))
        await played(ready, "Go")
        done = await children[0].forker.detached("Go on.")
    assert done.text == "forked"
    assert not (cwd / "b.txt").exists()
    assert not (cwd / "c.txt").exists()
    assert heard(child).count(OTHERS) == 2
