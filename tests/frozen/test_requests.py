"""The bytes of every request, of whole sessions by script, and the files that these leave behind."""

from __future__ import annotations

import pytest

from tests.frozen.frameworks import STORIES
from tests.frozen.golden import check
from tests.frozen.requests import files, rendered
from tests.frozen.scenarios import SCENARIOS
from tests.frozen.scenes import Scene

pytestmark = pytest.mark.moves_prefix(reason="forks and compactions are part of the stories")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS))
async def test_a_session_sends_the_same_bytes(name: str, scene: Scene) -> None:
    voices = await SCENARIOS[name](scene)
    check(f"requests/{name}.txt", rendered(voices, scene))
    check(f"files/{name}.txt", files(scene))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(STORIES))
async def test_a_client_and_a_framework_send_the_same_bytes(name: str, scene: Scene) -> None:
    story, packages = STORIES[name]
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is not installed")
    check(f"requests/over_http_{name}.txt", rendered(await story(scene), scene))
