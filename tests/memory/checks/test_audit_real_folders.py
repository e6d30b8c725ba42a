"""The audit of real memory folders: what it says of them was looked at one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.memory.checks.audit import Audit, audit
from nacre.memory.checks.audit_text import memories_in
from nacre.memory.transfer.import_sources import read_batch

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "claude_memory"

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(
        not DATA.is_dir(),
        reason="needs the folder of real memories, shared/data/claude_memory beside the repo",
    ),
]


@pytest.fixture(scope="module")
def audits() -> dict[str, Audit]:
    return {path.name: audit(path) for path in sorted(DATA.glob("*.tar.gz"))}


def test_every_folder_gets_a_score_and_nothing_is_taken_for_a_secret(audits: dict[str, Audit]) -> None:
    """M16: they were scrubbed, so that a credential or a hidden sign would be a false alarm."""
    assert audits
    for name, told in audits.items():
        assert 0 < told.score <= 100, name
        assert {one.kind for one in told.findings}.isdisjoint({"secret", "hidden-text", "broken-pointer"})


def test_rules_and_facts_about_people_are_never_taken_for_junk(audits: dict[str, Audit]) -> None:
    """M13: junk is found among notes on the project only."""
    for name, told in audits.items():
        kinds = {item.file: item.entry.kind for item in memories_in(read_batch(DATA / name))}
        junk = {one.file for one in told.findings if one.kind.startswith("junk")}
        assert {kinds[file] for file in junk} <= {"project", None}, name


def test_reports_on_finished_work_are_found(audits: dict[str, Audit]) -> None:
    """M13: about one in eleven of these memories is mostly such a report."""
    mostly = sum(
        one.kind.startswith("junk") and one.level == "warning"
        for told in audits.values()
        for one in told.findings
    )
    memories = sum(told.memories for told in audits.values())
    assert 0.05 <= mostly / memories <= 0.15
