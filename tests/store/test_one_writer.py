"""Small files of the home that several processes change at once: nothing that anyone wrote is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nacre.errors import StoreError
from nacre.store.locks import one_writer

WRITERS, EACH = 4, 15
TRUSTING = """
import sys; from pathlib import Path; from nacre.settings.trust import trust
for n in range(int(sys.argv[3])): trust(Path(sys.argv[1]), Path(f"/nowhere/{sys.argv[2]}-{n}"))
"""
LEARNING = """
import sys; from pathlib import Path
from nacre.app.build_toolset import LearnedPermissions; from nacre.tools.rules import PermissionRule
for n in range(int(sys.argv[3])):
    rule = PermissionRule("allow", "Edit", f"/{sys.argv[2]}-{n}", "your answer")
    LearnedPermissions(Path(sys.argv[1]), Path("/p")).add(rule)
"""
AGREEING = """
import sys; from pathlib import Path; from nacre.settings.trust import consent
for n in range(int(sys.argv[3])):
    path = Path(sys.argv[1]) / f"{sys.argv[2]}-{n}.md"
    path.touch()
    consent(Path(sys.argv[1]), Path("/p"), path)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "file"),
    [(TRUSTING, "trust.json"), (LEARNING, "permissions.json"), (AGREEING, "consent.json")],
)
def test_what_several_processes_add_at_once_is_all_there(tmp_path: Path, program: str, file: str) -> None:
    """M23: consent, trust and permissions of two terminals at once."""
    home = tmp_path / "home"
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(home), str(name), str(EACH)])
        for name in range(WRITERS)
    ]
    home.mkdir(exist_ok=True)
    assert [child.wait(timeout=120) for child in children] == [0] * WRITERS
    value = json.loads((home / file).read_bytes())
    assert len(value if isinstance(value, list) else next(iter(value.values()))) == WRITERS * EACH


def test_a_lock_that_is_never_given_up_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with one_writer(tmp_path / "a.json"), pytest.raises(StoreError, match=r"a\.json for over"):  # noqa: SIM117
        with one_writer(tmp_path / "a.json", wait=0.01):
            pass
    with one_writer(tmp_path / "a.json", wait=0.01):
        pass
