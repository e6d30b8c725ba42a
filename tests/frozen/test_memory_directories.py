"""The memory directory after a story, file by file, and its history without the commits' hashes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.frozen.commands import frozen_time, nacre
from tests.frozen.golden import check
from tests.frozen.memories import STORIES, directory
from tests.frozen.requests import Ids
from tests.frozen.scenes import Scene

pytestmark = pytest.mark.moves_prefix(reason="forks are part of the stories")


@pytest.fixture(autouse=True)
def time_stands_still(scene: Scene) -> Iterator[None]:
    with frozen_time(scene):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", list(STORIES))
def test_a_story_leaves_the_same_memories(name: str, scene: Scene) -> None:
    STORIES[name](scene)
    check(f"memory/{name}.txt", Ids().plain(scene.plain(_contents(scene) + _history(scene))))


def _contents(scene: Scene) -> str:
    root = directory(scene)
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    texts = {path: "" if path.name.startswith(".") else path.read_text(encoding="utf-8") for path in paths}
    return "".join(f"== {path.relative_to(root)} ==\n{text}\n" for path, text in texts.items())


def _history(scene: Scene) -> str:
    told = json.loads(nacre(scene, "memory", "log", "--json").out)
    commits = ({key: value for key, value in one.items() if key != "commit"} for one in told)
    lines = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in commits)
    return "== history ==\n" + re.sub(r"undo [0-9a-f]+", "undo COMMIT", lines)
