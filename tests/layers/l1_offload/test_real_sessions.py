"""Recorded sessions through layer 1: nothing is lost, nothing grows, every reference can be looked up."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from nacre.layers.l1_offload.offload import DUPLICATE, OFFLOAD, REREAD, OffloadAction, offload
from nacre.layers.l1_offload.policy import OffloadSettings
from nacre.layers.l1_offload.references import ResultsInView, page_of
from nacre.messages.blocks import Text, ToolResult
from nacre.messages.foreign import read_foreign
from nacre.messages.jsonl import decode
from nacre.messages.records import Record, Said
from nacre.messages.results import answered_calls
from nacre.messages.view import View
from nacre.store.tool_results import ToolResultStore
from tests.layers.l1_offload.test_reread import applied
from tests.messages.test_view import assert_valid

DATA = Path(__file__).parents[4] / "shared" / "data" / "claude_code_sessions"
FILES = [*sorted((DATA / "raw").glob("*.jsonl.gz")), *sorted((DATA / "sessions").glob("*.gz"))]
WORDS_ABOUT_NOTHING = 25
"""Tokens, at most, of the line that says that a tool had no output."""

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.skipif(not DATA.exists(), reason="the folder of recorded sessions is not beside the project"),
]


def recorded(path: Path) -> list[list[Record]]:
    data = gzip.decompress(path.read_bytes())
    if path.name.endswith(".jsonl.gz") and path.parent.name == "raw":
        return [decode(data.splitlines(keepends=True)).records]
    return [one.records for one in read_foreign(data, name=path.name)]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_real_tools_said_can_always_be_had_again(path: Path, tmp_path: Path) -> None:
    """C4 to C7: the file has every byte; the target stands whole; old text and changes make the new text."""
    for number, records in enumerate(recorded(path)):
        view, seen, shelf = View(), ResultsInView(), ToolResultStore(tmp_path / str(number), sync=False)
        for record in records:
            if isinstance(record, Said) and record.aside is None:
                done = offload(record, seen.follow(view), shelf, OffloadSettings())
                view = view.after(done.said)
                for act in done.acts:
                    assert_had_again(act, record, view)
            else:
                view = view.after(record)
        assert_valid(view)
        empty = sum(not one.result.text.strip() for one in answered_calls(View.of(records).items))
        assert view.estimate <= View.of(records).estimate + empty * WORDS_ABOUT_NOTHING


def assert_had_again(act: OffloadAction, record: Said, view: View) -> None:
    said = result_in(record, str(act.facts["call"]))
    standing = {one.id: one.result for one in answered_calls(view.items)}
    words = standing[str(act.facts["call"])].text
    if act.kind == OFFLOAD:
        path = Path(str(act.facts["path"]))
        kept = path.read_bytes().decode(errors="surrogatepass")
        texts = [one["text"] for one in json.loads(kept)] if path.suffix == ".json" else [kept]
        assert "\n".join(texts) == said
        return
    target = standing[str(act.facts["of"])].text
    if act.kind == DUPLICATE:
        assert target == said
    else:
        assert act.kind == REREAD
        sign = "→" if "→" in said.partition("\n")[0] else "\t"
        page = page_of(said)
        assert page is not None
        assert applied(target, words.partition("\n")[2], sign, page.width) == said


def result_in(record: Said, call_id: str) -> str:
    (result,) = (one for one in record.blocks if isinstance(one, ToolResult) and one.call_id == call_id)
    assert all(isinstance(part, Text) for part in result.content)
    return result.text
