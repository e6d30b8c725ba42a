"""Every recorded session folds to a request a provider would take."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from nacre.messages.foreign import read_foreign
from nacre.messages.jsonl import decode
from nacre.messages.view import View
from tests.messages.test_view import assert_valid

DATA = Path(__file__).parents[3] / "shared" / "data"
RECORDINGS = [
    path
    for folder in ("claude_code_sessions/sessions", "tau_bench", "swe_agent_trajs", "openhands_style_trajs")
    for path in sorted((DATA / folder).glob("*"))
    if path.suffix in {".gz", ".traj", ".json", ".jsonl"}
]
LOGS = sorted((DATA / "claude_code_sessions" / "raw").glob("*.jsonl.gz"))

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not DATA.exists(), reason="the folder of recorded sessions is not beside the project"),
]


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_a_recording_folds_to_a_valid_request(path: Path) -> None:
    """T5, T6: whatever real files hold."""
    for session in read_foreign(_bytes(path), name=path.name):
        assert_valid(View.of(session.records))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_real_log_folds_to_a_valid_request_and_the_same_one_live(path: Path) -> None:
    """T3, T5, T6."""
    records = decode(_bytes(path).splitlines(keepends=True)).records
    whole = View.of(records)
    assert_valid(whole)
    live = View()
    for record in records:
        live = live.after(record)
    assert live == whole
