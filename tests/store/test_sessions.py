"""Listing, finding and searching the sessions of a home."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.errors import SessionNotFound, TranscriptError
from nacre.store.derived import DerivedCache
from nacre.store.home import slug
from nacre.store.session_log import SessionLog, log_path
from nacre.store.sessions import LogQuery, Sessions, query
from nacre.store.summaries import SessionSummary
from tests.scale import scaled

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "claude_code_sessions" / "raw"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def put(
    home: Path, session: str, *records: object, cwd: str = "/w", at: int = 1_000, **style: object
) -> Path:
    path = log_path(home, cwd, session)
    path.parent.mkdir(parents=True, exist_ok=True)
    separators = style.get("separators", (",", ":"))
    text = "".join(json.dumps(each, separators=separators, ensure_ascii=False) + "\n" for each in records)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def user(text: str, **more: object) -> dict[str, object]:
    return {
        "type": "user",
        "cwd": "/w",
        "timestamp": "2026-01-02T03:04:05.678Z",
        "message": {"role": "user", "content": text},
    } | more


def reply(text: str, *counts: int, **more: object) -> dict[str, object]:
    names = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"]
    usage = dict(zip(names, counts, strict=False))
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "message": {"role": "assistant", "content": content, "usage": usage}} | more


BOUNDARY = {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto"}}


# Listing


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_summary_says_what_a_session_is_about(home: Path, separators: tuple[str, str]) -> None:
    path = put(
        home,
        "s",
        {"type": "file-history-snapshot", "snapshot": {}},
        user("<command-name>/clear</command-name>"),
        user("injected", isMeta=True),
        user("Fix the\n  parser, please"),
        reply("ok", 10, 20, 30, 4),
        BOUNDARY,
        {"type": "progress", "data": {"message": {"type": "user", "message": {"role": "user"}}}},
        user('a text about "type":"user" and "compact_boundary"'),
        reply("last", 1, 2, 3, 4),
        reply("aside", 99, 99, 99, 99, isSidechain=True),
        reply("synthetic", 0, 0, 0, 0, message={"model": "<synthetic>", "usage": {"input_tokens": 0}}),
        at=5_000,
        separators=separators,
    )
    assert Sessions(home).list() == [
        SessionSummary(
            session="s",
            cwd="/w",
            started=datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
            modified=datetime.fromtimestamp(5_000, UTC),
            messages=8,
            tokens=10,
            compactions=1,
            bytes=path.stat().st_size,
            title="Fix the parser, please",
            slug="-w",
            path=path,
        )
    ]


def test_after_a_compaction_a_session_holds_what_that_left(home: Path) -> None:
    """C22: until the next reply says more; neither a note about other requests nor an undoing does."""
    note = {"type": "nacre", "kind": "noted", "facts": {"usage": {"input_tokens": 9}}}
    left = BOUNDARY | {"compactMetadata": {"postTokens": 77, "nacre": {"carries": [note]}}}
    undone = {"type": "nacre", "kind": "undone", "target": "c"}
    cases = {"a": [left, note], "b": [left, reply("more", 1, 2, 3, 4), note], "c": [left, undone]}
    for name, records in cases.items():
        put(home, name, user("hi"), reply("ok", 10, 20, 30, 4), *records)
    assert {each.session: each.tokens for each in Sessions(home).list()} == {"a": 77, "b": 10, "c": 0}


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([{"type": "summary", "summary": "old"}, {"type": "summary", "summary": "new"}], "new"),
        ([{"type": "custom-title", "customTitle": "mine"}, {"type": "ai-title", "aiTitle": "its"}], "mine"),
        ([{"type": "ai-title", "aiTitle": "its"}, {"type": "summary", "summary": "s"}], "its"),
        ([user("x" * 200)], "x" * 79 + "…"),
        (
            [
                user(
                    "",
                    message={"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "hi"}]},
                )
            ],
            "hi",
        ),
        ([user("[Request interrupted by user]"), user("go on")], "go on"),
        ([], None),
        (["not", 7], None),
    ],
)
def test_a_title_is_the_given_name_or_the_first_words(
    home: Path, records: list[object], title: str | None
) -> None:
    put(home, "s", *records)
    assert [each.title for each in Sessions(home).list()] == [title]


def test_sessions_are_listed_newest_first_and_by_directory(home: Path) -> None:
    put(home, "old", user("a"), at=1)
    put(home, "new", user("a"), at=3)
    put(home, "elsewhere", user("a", cwd="/x"), cwd="/x", at=2)
    sessions = Sessions(home)
    assert [each.session for each in sessions.list()] == ["new", "elsewhere", "old"]
    assert [each.session for each in sessions.list("/w")] == ["new", "old"]
    assert sessions.latest("/w") == log_path(home, "/w", "new")
    assert sessions.latest("/nowhere") is None


def test_two_directories_that_share_a_slug_do_not_share_sessions(home: Path) -> None:
    """M2: `a_b` and `a-b` have one folder."""
    put(home, "under", user("a", cwd="/a_b"), cwd="/a_b")
    put(home, "dash", user("a", cwd="/a-b"), cwd="/a-b")
    put(home, "unknown", {"type": "progress"}, cwd="/a-b")
    assert sorted(each.session for each in Sessions(home).list("/a_b")) == ["under", "unknown"]
    assert sorted(each.session for each in Sessions(home).list("/a-b")) == ["dash", "unknown"]
    assert [hit.session for hit in Sessions(home).search("a", cwd="/a_b")] == ["under"]
    assert [hit.session for hit in Sessions(home).search("a", cwd="/a-b")] == ["dash"]


def test_the_folder_of_a_long_path_is_found_whatever_hash_it_ends_in(home: Path) -> None:
    """M2."""
    long = "/" + "a" * 300
    made = put(home, "s", user("a", cwd=long), cwd=long)
    made.parent.rename(made.parent.with_name(slug(long)[:201] + "zzz"))
    assert [each.session for each in Sessions(home).list(long)] == ["s"]


def test_what_is_no_session_is_not_listed_and_holds_nothing_up(home: Path) -> None:
    folder = put(home, "s", user("a")).parent
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "dir.jsonl").mkdir()
    (folder / "agent-1.jsonl").write_text("{}\n")
    (folder / "dangling.jsonl").symlink_to(folder / "none")
    (folder / "notes.md").write_text("x")
    (home / "projects" / "file").write_text("x")
    (folder / "binary.jsonl").write_bytes(b"\xff\0{\n" * 10)
    assert sorted(each.session for each in Sessions(home).list()) == ["binary", "s"]
    assert list(Sessions(home).search("anything")) == []


def test_a_home_without_sessions_lists_none(home: Path) -> None:
    assert Sessions(home).list() == []
    assert Sessions(home).list("/w") == []
    assert not home.exists()


def test_a_listing_changes_no_log_and_reads_an_unchanged_one_only_once(home: Path) -> None:
    """The cache is believed while size and time are the same; shown by changing what they do not show."""
    path = put(home, "s", user("first"))
    before = path.stat()
    assert [each.title for each in Sessions(home).list()] == ["first"]
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)
    path.write_bytes(path.read_bytes().replace(b"first", b"other"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [each.title for each in Sessions(home).list()] == ["first"]
    os.utime(path, (2_000, 2_000))
    assert [each.title for each in Sessions(home).list()] == ["other"]


def test_a_cache_that_cannot_be_used_costs_time_only(home: Path) -> None:
    put(home, "s", user("first"))
    put(home, "t", user("second"))
    expected = Sessions(home).list()
    cache = DerivedCache(home / "cache" / "sessions")
    rows = cache.all()
    for row in [None, 3, (), ("a", 1, 2), ("/w", None, "no time", 1, 1, 1, None)]:
        cache.update({name: (fingerprint, row) for name, (fingerprint, _) in rows.items()})
        assert Sessions(home).list() == expected
    cache.path.write_bytes(b"damaged")
    assert Sessions(home).list() == expected
    assert cache.all() == rows
    log_path(home, "/w", "t").unlink()
    assert [each.session for each in Sessions(home).list()] == ["s"]
    assert len(cache.all()) == 1


def test_a_session_that_is_open_is_listed(home: Path) -> None:
    with SessionLog.create(home, "/w", session="live") as log:
        log.append(json.dumps(user("hello")).encode() + b"\n")
        assert [(each.session, each.messages) for each in Sessions(home).list()] == [("live", 1)]


# Finding


def test_a_session_is_found_by_its_id_or_its_beginning(home: Path) -> None:
    put(home, "abc-1")
    put(home, "abc-12")
    put(home, "xyz")
    sessions = Sessions(home)
    assert sessions.find("abc-1").stem == "abc-1"
    assert sessions.find("abc-12").stem == "abc-12"
    assert sessions.find("x").stem == "xyz"
    with pytest.raises(TranscriptError, match="beginning of 2 sessions: abc-1, abc-12"):
        sessions.find("abc")
    with pytest.raises(SessionNotFound, match="did you mean abc-1, abc-12"):
        sessions.find("abc-9")
    with pytest.raises(SessionNotFound, match="sessions list"):
        sessions.find("")


def test_of_two_copies_of_a_session_the_newer_is_meant(home: Path) -> None:
    put(home, "s", cwd="/old", at=1)
    newer = put(home, "s", cwd="/new", at=2)
    assert Sessions(home).find("s") == newer


# Searching


def test_a_hit_names_session_line_role_and_shows_the_words_around(home: Path) -> None:
    """T7."""
    path = put(home, "s", user("nothing here"), reply("x " * 200 + "the Needle\n in it" + " y" * 200))
    (hit,) = Sessions(home).search("needle")
    assert (hit.session, hit.path, hit.line, hit.role) == ("s", path, 2, "assistant")
    assert "the Needle in it" in hit.snippet
    assert hit.snippet.startswith("…")
    assert len(hit.snippet) <= 161


def test_case_counts_when_asked_for(home: Path) -> None:
    put(home, "s", user("Needle"))
    assert len(list(Sessions(home).search("needle"))) == 1
    assert list(Sessions(home).search("needle", ignore_case=False)) == []
    assert len(list(Sessions(home).search("Needle", ignore_case=False))) == 1


@pytest.mark.parametrize(
    "text",
    [
        'say "hi"',
        "C:\\temp",
        "a\nb",
        "你好",
        "Ünïcode",
        "😀",
        "</tag>",
        "tab\there",
        "a/b",
        "{}[]",
        "ab",
        "é",
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("ignore_case", [True, False])
def test_text_is_found_however_its_line_spells_it(
    home: Path, text: str, ascii_only: bool, ignore_case: bool
) -> None:
    """T7: the test of bytes never hides a line, whether characters stand raw or as escapes."""
    path = put(home, "s")
    line = json.dumps(user(f"before {text} after"), ensure_ascii=ascii_only)
    path.write_text("{}\n" + line + "\n" + line.replace("/", "\\/").replace("<", "\\u003C") + "\n")
    assert [hit.line for hit in Sessions(home).search(text, ignore_case=ignore_case)] == [2, 3]


def test_ids_signatures_and_envelopes_are_not_searched(home: Path) -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "needle"}
    put(
        home, "s", user("x", uuid="needle", message={"role": "assistant", "id": "needle", "content": [block]})
    )
    assert list(Sessions(home).search("needle")) == []


def test_calls_results_and_titles_are_searched(home: Path) -> None:
    call = {"type": "tool_use", "id": "t", "name": "bash", "input": {"command": "grep needle"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a needle"}]}
    put(
        home,
        "s",
        user("x", message={"role": "assistant", "content": [call]}),
        user("x", message={"role": "user", "content": [result]}),
        {"type": "summary", "summary": "Needle work"},
        {"type": "system", "content": "needle"},
    )
    assert [hit.line for hit in Sessions(home).search("needle")] == [1, 2, 3, 4]


def test_a_regular_expression_is_matched_on_texts_and_a_bad_one_is_refused_at_once(home: Path) -> None:
    put(home, "s", user("error 404 in x.py"), user("error in y.py"))
    sessions = Sessions(home)
    assert [hit.line for hit in sessions.search(r"error \d+", regex=True)] == [1]
    assert [hit.line for hit in sessions.search(r"^ERROR.*\.py$", regex=True)] == [1, 2]
    with pytest.raises(TranscriptError, match="not a regular expression"):
        sessions.search("(", regex=True)
    with pytest.raises(TranscriptError, match="nothing to search"):
        sessions.search("")


def test_line_numbers_hold_over_chunks_blank_lines_and_very_long_lines(home: Path) -> None:
    path = put(home, "s")
    needle = json.dumps(user("needle")).encode() + b"\n"
    filler = json.dumps(user("x" * 700_000)).encode() + b"\n"
    huge = json.dumps(user("y" * 3_000_000 + " needle")).encode() + b"\n"
    path.write_bytes(needle + b"\n" + filler * 4 + needle + huge + needle.rstrip())
    assert [hit.line for hit in Sessions(home).search("needle")] == [1, 7, 8, 9]


PIECES = st.sampled_from(
    [
        "abc",
        "needle",
        "x",
        r"\d+",
        r"\w",
        ".",
        ".*",
        "a?",
        "b+",
        "c{2}",
        "[xyz]",
        "(abc)?",
        "(a|b)",
        "|",
        r"\.",
        "^",
    ]
)


@given(
    pattern=st.lists(PIECES, min_size=1, max_size=6).map("".join), text=st.text("abcnedlxyz .1", max_size=20)
)
@settings(max_examples=scaled(400), deadline=None)
def test_the_test_of_bytes_lets_every_match_of_a_pattern_through(pattern: str, text: str) -> None:
    """T7: the shortcut may only skip lines that cannot match."""
    try:
        made: LogQuery = query(pattern, regex=True)
    except TranscriptError:
        return
    for each in (text, _example(pattern, text)):
        if made.candidate is not None and re.search(pattern, each, re.IGNORECASE):
            assert made.candidate.search(json.dumps(each).encode().lower())


def _example(pattern: str, text: str) -> str:
    """Something close to a match: quantified and special parts filled in."""
    plain = pattern.replace(r"\d+", "7").replace(r"\w", "w").replace("[xyz]", "y").replace("c{2}", "cc")
    return re.sub(r"[?^]|\(a\|b\)|[()]", "", plain.replace(".*", text).replace("a?", "").replace("b+", "b"))


# Real logs


@pytest.mark.real_data
def test_real_logs_list_and_search_as_a_full_parse_would(home: Path) -> None:
    """T7, M1: another program's home works, and no file in it changes."""
    if not DATA.is_dir():
        pytest.skip("the shared data folder is not next to the repository")
    folder = home / "projects" / "-real"
    folder.mkdir(parents=True)
    for packed in sorted(DATA.glob("*.jsonl.gz")):
        with gzip.open(packed) as source, (folder / packed.name.removesuffix(".gz")).open("wb") as target:
            shutil.copyfileobj(source, target)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    summaries = {each.path.name: each for each in Sessions(home).list()}
    assert summaries.keys() == before.keys()
    for name, content in before.items():
        records = [json.loads(line) for line in content.splitlines() if line.strip()]
        said = [each for each in records if each["type"] in ("user", "assistant")]
        assert summaries[name].messages == len(said)
        assert summaries[name].compactions == sum(
            each.get("subtype") == "compact_boundary" for each in records
        )
        assert summaries[name].cwd == next(each["cwd"] for each in records if "cwd" in each)
        found = {hit.line for hit in Sessions(home).search("error", with_added=True) if hit.path.name == name}
        assert found >= {
            n for n, each in enumerate(records, 1) if any("error" in t.lower() for t in _said(each))
        }
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def _said(record: dict[str, dict[str, object]]) -> list[str]:
    content = record.get("message", {}).get("content", "")
    blocks = content if isinstance(content, list) else [{"text": content}]
    return [
        value for block in blocks for key in ("text", "content") if isinstance(value := block.get(key), str)
    ]
