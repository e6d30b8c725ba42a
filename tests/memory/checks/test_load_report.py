"""The load report: what a conversation starts with, and why the rest is not there (M16c)."""

from __future__ import annotations

import os
from pathlib import Path

from nacre.memory.checks.load_report import load_report

TEA = "---\nname: Tea\ndescription: likes green tea\ntype: user\n{}---\n\nGreen.\n"


def test_each_file_is_accounted_for(tmp_path: Path) -> None:
    texts = {"first": "", "second": "", "web": "origin: untrusted\n", "off": "indexed: false\n", "lost": ""}
    for name, extra in texts.items():
        (tmp_path / f"{name}.md").write_text(TEA.format(extra))
    for folder in ("ops", "team"):  # the team's memory has a report of its own (M18)
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ours.md").write_text(TEA.format(""))
        (tmp_path / folder / "MEMORY.md").write_text("- [Ours](ours.md)\n")
    (tmp_path / "bad.md").write_bytes(b"\xff")
    (tmp_path / "MEMORY.md").write_text("- [First](first.md)\n- [Second](second.md)\n")
    report = load_report(tmp_path, max_lines=1)
    assert report[0].state == "cut"
    assert "2 lines (limit 1)" in report[0].why
    assert {one.file: (one.state, one.why) for one in report[1:]} == {
        "first.md": ("listed", ""),
        "second.md": ("cut", "its pointer is beyond what is loaded of the index"),
        "web.md": ("unlisted", "untrusted: found only on request"),
        "off.md": ("unlisted", "it says `indexed: false`; recall still finds it"),
        "lost.md": ("unlisted", "no index points to it; recall still finds it"),
        "ops/ours.md": ("unlisted", "an index in its own folder lists it"),
        "bad.md": ("left out", "is not UTF-8"),
    }
    assert {one.file: one.state for one in load_report(tmp_path)}["MEMORY.md"] == "loaded"


def test_an_index_that_is_missing_or_no_file_is_harmless(tmp_path: Path) -> None:
    assert load_report(tmp_path / "none") == ()
    os.mkfifo(tmp_path / "MEMORY.md")
    (one,) = load_report(tmp_path)
    assert (one.file, one.state) == ("MEMORY.md", "left out")
    assert "named pipe" in one.why
