"""The session log: lease, repair, boundaries, branches."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.errors import ForeignTranscript, SessionBusy, SessionNotFound, TranscriptError
from nacre.store.boundaries import Boundary, ResumeFrom, load, up_to_date
from nacre.store.session_log import SessionLog, branch, log_path
from tests.scale import scaled


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def log(home: Path) -> Iterator[SessionLog]:
    with SessionLog.create(home, "/work/project", session="s-1") as made:
        yield made


def listed(log: SessionLog) -> tuple[Boundary, ...]:
    return up_to_date(log.path, load(sidecar(log))).boundaries


def line(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def said(uuid: str, text: str = "hello") -> bytes:
    return line(
        type="user", uuid=uuid, parentUuid=None, sessionId="s-1", message={"role": "user", "content": text}
    )


def boundary(uuid: str, **metadata: object) -> bytes:
    """A compaction as it is written: its boundary and its summary."""
    return lone_boundary(uuid, **metadata) + summary(f"{uuid}-summary", parent=uuid)


def lone_boundary(uuid: str, **metadata: object) -> bytes:
    return line(
        type="system", subtype="compact_boundary", uuid=uuid, sessionId="s-1", compactMetadata=metadata
    )


def summary(uuid: str, parent: str | None = None) -> bytes:
    message = {"role": "user", "content": "so far"}
    return line(
        type="user", uuid=uuid, parentUuid=parent, sessionId="s-1", isCompactSummary=True, message=message
    )


def span(record_id: str, *, first: str, keeps: str | None = None, summary_id: str = "") -> bytes:
    return line(
        type="nacre",
        id=record_id,
        kind="compacted",
        compacted={"first": first, "keepsFrom": keeps, "summaryId": summary_id},
    )


def undone(record_id: str, target: str) -> bytes:
    return line(type="nacre", id=record_id, kind="undone", target=target)


def offsets(log: SessionLog, *records: bytes) -> list[int]:
    """Append each record and say where it begins."""
    return [log.append(record) - len(record) for record in records]


# Place, modes, reading and appending


def test_a_log_lies_under_the_slug_of_its_directory_for_the_owner_alone(home: Path, log: SessionLog) -> None:
    """T1, M27."""
    assert log.path == home / "projects" / "-work-project" / "s-1.jsonl"
    assert log.folder == home / "projects" / "-work-project" / "s-1"
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    for folder in (home, home / "projects", log.path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_directory_behind_a_symlink_has_the_log_of_the_real_one(home: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert log_path(home, tmp_path / "link", "s") == log_path(home, real, "s")


@pytest.mark.parametrize("session", ["", "../x", "a/b", ".hidden", "a b", "x" * 129, "é"])
def test_a_session_id_that_is_no_plain_name_is_refused(home: Path, session: str) -> None:
    with pytest.raises(TranscriptError, match="cannot be a session id"):
        SessionLog.create(home, "/w", session=session)


def test_a_second_log_with_one_id_is_refused(home: Path, log: SessionLog) -> None:
    log.append(said("a"))
    log.close()
    with pytest.raises(TranscriptError, match="already at"):
        SessionLog.create(home, "/work/project", session="s-1")
    assert log.path.read_bytes() == said("a")


def test_lines_are_read_back_from_any_offset_up_to_the_size_at_that_time(log: SessionLog) -> None:
    log.append(said("a") + said("b"))
    start = log.size
    log.append(b"\n" + said("c"), sync=True)
    reading = log.read(start)
    assert next(reading) == b""
    log.append(said("d"))
    assert list(reading) == [said("c").rstrip()]
    assert [json.loads(each)["uuid"] for each in log.read() if each] == ["a", "b", "c", "d"]


def test_a_line_longer_than_every_buffer_is_read_whole(log: SessionLog) -> None:
    """T9."""
    long = said("long", "x" * 5_000_000)
    log.append(said("a") + long + said("b"))
    assert [len(each) for each in log.read()] == [len(said("a")) - 1, len(long) - 1, len(said("b")) - 1]


def test_a_log_takes_only_whole_lines(log: SessionLog) -> None:
    with pytest.raises(ValueError, match="line end"):
        log.append(b'{"half":')
    assert log.size == 0


def test_what_is_not_a_regular_file_is_an_error_and_never_a_wait(home: Path) -> None:
    folder = home / "projects" / "-w"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "dir.jsonl").mkdir()
    for name in ("pipe.jsonl", "dir.jsonl"):
        with pytest.raises(TranscriptError, match="not a regular file"):
            SessionLog.open(folder / name, home=home)


def test_a_missing_log_is_not_found_and_leaves_no_lock_behind(home: Path) -> None:
    with pytest.raises(SessionNotFound, match="nacre sessions list"):
        SessionLog.open(home / "projects" / "-w" / "none.jsonl", home=home)
    assert not home.exists()


# The lease


def test_the_lease_names_its_holder_and_its_files_are_not_among_the_projects(
    home: Path, log: SessionLog
) -> None:
    """T8b: other programs that scan the projects folder see logs and nothing else."""
    log.append(said("a"))
    with pytest.raises(SessionBusy, match=f"process {os.getpid()} on .*branch"):
        SessionLog.open(log.path, home=home)
    assert [path.name for path in (home / "projects").rglob("*")] == ["-work-project", "s-1.jsonl"]
    log.close()
    log.close()
    with SessionLog.open(log.path, home=home) as again:
        assert list(again.read()) == [said("a").rstrip()]


def test_a_failed_opening_gives_the_lease_back(home: Path, tmp_path: Path) -> None:
    path = log_path(home, "/w", "notes")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"just some text")
    for _ in range(2):
        with pytest.raises(ForeignTranscript, match="left as it is"):
            SessionLog.open(path, home=home)
    assert path.read_bytes() == b"just some text"


# Repair of the tail


def reopened(log: SessionLog, content: bytes) -> SessionLog:
    log.close()
    log.path.write_bytes(content)
    return SessionLog.open(log.path, home=log.home)


def test_a_whole_log_is_not_touched(log: SessionLog) -> None:
    for content in (b"", said("a"), said("a") + b"\n\n", b"\n", b"broken in the middle\n" + said("a")):
        with reopened(log, content) as again:
            assert (again.repaired, again.path.read_bytes()) == (None, content)
    assert not log.folder.exists()


@pytest.mark.parametrize(
    "torn",
    [
        b'{"type":"us',
        b'{"type":"us\n',
        b"\0" * 300,
        b"{}{\n",
        b"7\n",
        b'{"a":"\xff"}\n',
        b'{"x":' + b"y" * 3_000_000,
    ],
)
def test_torn_bytes_are_moved_aside_and_the_rest_stays(log: SessionLog, torn: bytes) -> None:
    """T8."""
    with reopened(log, said("a") + torn) as again:
        assert again.repaired is not None
        assert (again.repaired.torn_bytes, again.repaired.kept_in) == (len(torn), again.folder / "torn-1.bin")
        assert (again.folder / "torn-1.bin").read_bytes() == torn
        assert again.path.read_bytes() == said("a")
        again.append(said("b"))
        assert again.path.read_bytes() == said("a") + said("b")


def test_a_boundary_without_its_summary_is_moved_aside_with_the_torn_line(log: SessionLog) -> None:
    """T8: a compaction is in the log with its summary or not at all."""
    boundary = b'{"type":"system","subtype":"compact_boundary","uuid":"u-1"}\n'
    torn = b'{"type":"user","isCompactSum'
    with reopened(log, said("a") + boundary + torn) as again:
        assert again.repaired is not None
        assert (again.folder / "torn-1.bin").read_bytes() == boundary + torn
        assert again.path.read_bytes() == said("a")


def test_each_repair_keeps_its_own_file(log: SessionLog) -> None:
    for _ in range(3):
        log = reopened(log, said("a") + b'{"to')
    log.close()
    assert sorted(path.name for path in log.folder.iterdir()) == ["torn-1.bin", "torn-2.bin", "torn-3.bin"]


def test_a_whole_record_that_lacks_only_its_line_end_is_kept(log: SessionLog) -> None:
    """T8: at most the record being written is lost, and this one was written."""
    with reopened(log, said("a") + said("b").rstrip()) as again:
        assert again.repaired is not None
        assert (again.repaired.torn_bytes, again.repaired.kept_in) == (0, None)
        assert again.path.read_bytes() == said("a") + said("b")


def test_a_log_torn_in_its_first_record_becomes_empty(log: SessionLog) -> None:
    for torn in (b'{"type"', b"\0" * 10):
        with reopened(log, torn) as again:
            assert again.size == 0


@given(cut=st.data())
@settings(max_examples=scaled(60), deadline=None)
def test_a_log_cut_anywhere_opens_as_a_prefix_of_its_records(
    tmp_path_factory: pytest.TempPathFactory, cut: st.DataObject
) -> None:
    """T8: property over every place a write can stop."""
    records = [said(f"u{i}", text) for i, text in enumerate(["x", '{"a":\n}', "项目😀", "\\" * 3, ""])]
    whole = b"".join(records)
    at = cut.draw(st.integers(0, len(whole)))
    home = tmp_path_factory.mktemp("cut")
    path = log_path(home, "/w", "s")
    path.parent.mkdir(parents=True)
    path.write_bytes(whole[:at])
    with SessionLog.open(path, home=home) as log:
        kept = path.read_bytes()
        aside = b"".join(each.read_bytes() for each in log.folder.glob("torn-*.bin"))
    assert any(kept == b"".join(records[:n]) for n in range(len(records) + 1))
    assert kept + aside in (whole[:at], whole[:at] + b"\n")


# Boundaries


def test_without_a_boundary_everything_is_read(log: SessionLog) -> None:
    log.append(said("a"))
    assert log.resume_offset() == ResumeFrom(0, log.size, None)
    assert not log.folder.exists()


def test_reading_starts_at_the_last_whole_boundary(log: SessionLog) -> None:
    """T9."""
    _, _, second, _ = offsets(log, said("a"), boundary("b1"), boundary("b2"), said("c"))
    resume = log.resume_offset()
    assert (resume.offset, resume.bytes_to_read) == (second, log.size - second)
    assert [each.id for each in listed(log)] == ["b1", "b2"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"preservedSegment": {"headUuid": "k1", "anchorUuid": "b", "tailUuid": "k2"}},
        {"preservedSegment": {"head": "k1", "anchor": "b", "tail": "k2"}},
        {"preservedMessages": {"anchorUuid": "b", "uuids": ["k2", "k1"]}},
        {"nacre": {"keepsFrom": "k1"}, "keepsFrom": "k1"},
    ],
)
def test_a_kept_tail_before_the_boundary_is_read_too(log: SessionLog, metadata: dict[str, object]) -> None:
    """T9: in every spelling that occurs; a mention of the id elsewhere in a record is not the record."""
    mention = line(
        type="user", uuid="m", message={"content": 'see "uuid":"k1"'}, toolUseResult={"uuid": "k1"}
    )
    _, kept, _, _ = offsets(log, said("a") + mention, said("k1"), said("k2"), boundary("b", **metadata))
    assert log.resume_offset().offset == kept


def test_a_boundary_without_its_summary_is_no_place_to_start(log: SessionLog) -> None:
    """T8: killed between the two lines, the compaction did not happen and everything before it stands."""
    offsets(log, said("a"), lone_boundary("b"))
    assert log.resume_offset().offset == 0
    offsets(log, said("c"))
    assert log.resume_offset().offset == 0
    offsets(log, summary("late", parent="b"))
    assert log.resume_offset().boundary is not None


def test_a_boundary_that_keeps_an_unknown_record_keeps_nothing(log: SessionLog) -> None:
    _, at = offsets(log, said("a"), boundary("b", keepsFrom="nobody"))
    assert log.resume_offset().offset == at


def test_a_tail_that_reaches_over_an_earlier_boundary_takes_what_that_one_needs(log: SessionLog) -> None:
    """T9: the earlier boundary is folded again, so its own kept tail must be there."""
    _, first, _, _, _, _ = offsets(
        log,
        said("a"),
        said("k1"),
        said("k2"),
        boundary("b1", keepsFrom="k1"),
        said("c"),
        boundary("b2", keepsFrom="k2"),
    )
    assert log.resume_offset().offset == first


def test_a_kept_summary_is_read_from_its_boundary_on(log: SessionLog) -> None:
    _, first, _, _, _ = offsets(
        log, said("a"), lone_boundary("b1"), summary("sum"), said("c"), boundary("b2", keepsFrom="sum")
    )
    assert log.resume_offset().offset == first


def test_a_span_in_the_middle_is_no_place_to_start(log: SessionLog) -> None:
    _, at, _, _ = offsets(log, said("a"), boundary("b"), said("c"), span("s", first="c"))
    assert log.resume_offset().offset == at
    assert [(each.id, each.whole) for each in listed(log)] == [("b", True), ("s", False)]


def test_a_boundary_that_keeps_the_summary_of_a_span_takes_the_span_along(log: SessionLog) -> None:
    """The summary of a span has no line of its own; what it stands for is read again instead."""
    _, first, _, _, _ = offsets(
        log,
        said("a"),
        said("f"),
        said("g"),
        span("s", first="f", summary_id="sum"),
        boundary("b", keepsFrom="sum"),
    )
    assert log.resume_offset().offset == first


def test_an_undone_boundary_does_not_count_and_a_redone_one_does(log: SessionLog) -> None:
    _, b1, _, b2, _ = offsets(log, said("a"), boundary("b1"), said("c"), boundary("b2"), undone("u1", "b2"))
    assert log.resume_offset().offset == b1
    log.append(undone("u2", "u1"))
    assert log.resume_offset().offset == b2


def test_a_boundary_inside_a_text_or_of_a_sidechain_is_not_one(log: SessionLog) -> None:
    log.append(said("a", '{"type":"system","subtype":"compact_boundary"}'))
    log.append(line(type="user", uuid="n", toolUseResult={"subtype": "compact_boundary"}))
    log.append(line(type="system", subtype="compact_boundary", uuid="x", isSidechain=True))
    log.append(line(type="system", subtype="microcompact_boundary", uuid="y"))
    assert listed(log) == ()


# The sidecar


def sidecar(log: SessionLog) -> Path:
    return log.folder / "boundaries.json"


def test_the_index_is_on_disk_as_soon_as_its_boundary_is(log: SessionLog) -> None:
    offsets(log, said("a"), boundary("b", keepsFrom="a"))
    saved = json.loads(sidecar(log).read_bytes())
    assert (saved["size"], [entry[1] for entry in saved["boundaries"]]) == (log.size, ["b"])


def test_the_index_saves_reading_what_it_covers(log: SessionLog) -> None:
    """T9: shown by an index that says something else than the bytes it covers, and is believed."""
    _, at = offsets(log, said("a"), boundary("b"))
    log.append(said("c"))
    path = sidecar(log)
    path.write_text(path.read_text().replace('"b"', '"from the sidecar"'))
    log.close()
    with SessionLog.open(log.path, home=log.home) as again:
        assert [(each.offset, each.id) for each in listed(again)] == [(at, "from the sidecar")]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"format":99}', b'{"format":1,"boundaries":[[1]]}', None]
)
def test_an_absent_or_damaged_index_is_made_again(log: SessionLog, damage: bytes | None) -> None:
    _, at = offsets(log, said("a"), boundary("b"))
    log.close()
    if damage is None:
        sidecar(log).unlink()
    else:
        sidecar(log).write_bytes(damage)
    with SessionLog.open(log.path, home=log.home) as again:
        assert again.resume_offset().offset == at


def test_an_index_of_another_file_is_not_believed(log: SessionLog) -> None:
    offsets(log, said("a"), boundary("b"))
    size = log.size
    log.close()
    shorter, longer = said("z"), said("z", "z" * size) + boundary("c")
    same = said("a").replace(b"hello", b"HELLO") + boundary("c")
    for content, expected in [(shorter, []), (longer, ["c"]), (same, ["c"])]:
        with reopened(log, content) as again:
            assert [each.id for each in listed(again)] == expected


def test_lines_another_program_appended_are_in_the_index(log: SessionLog) -> None:
    offsets(log, said("a"), boundary("b1"))
    with log.path.open("ab") as other:
        other.write(said("x") + boundary("b2"))
    log.append(said("c"))
    assert [each.id for each in listed(log)] == ["b1", "b2"]


SCRIPT = st.lists(
    st.one_of(
        st.tuples(st.just("said"), st.none()),
        st.tuples(st.just("boundary"), st.one_of(st.none(), st.integers(0, 30))),
        st.tuples(st.just("span"), st.integers(0, 30)),
        st.tuples(st.just("undone"), st.integers(0, 30)),
    ),
    max_size=25,
)


def written(script: list[tuple[str, int | None]]) -> list[bytes]:
    records = []
    for number, (kind, to) in enumerate(script):
        name, named = f"r{number}", None if to is None else f"r{to % (number + 1)}"
        match kind:
            case "said":
                records.append(said(name))
            case "boundary":
                records.append(boundary(name, **({} if named is None else {"keepsFrom": named})))
            case "span":
                records.append(span(name, first=str(named)))
            case _:
                records.append(undone(name, str(named)))
    return records


@given(script=SCRIPT)
@settings(max_examples=scaled(60), deadline=None)
def test_an_index_kept_while_appending_equals_one_made_from_scratch(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, int | None]]
) -> None:
    """T9: whatever is appended in whatever order."""
    home = tmp_path_factory.mktemp("index")
    with SessionLog.create(home, "/w", session="s") as log:
        for record in written(script):
            log.append(record)
        kept = (listed(log), log.resume_offset())
    sidecar(log).unlink(missing_ok=True)
    with SessionLog.open(log.path, home=home) as again:
        assert (listed(again), again.resume_offset()) == kept
        start = again.resume_offset().offset
        assert start == 0 or again.path.read_bytes()[start - 1 : start] == b"\n"


# Branches


def test_a_branch_continues_under_its_own_id_while_the_first_stays_open(log: SessionLog) -> None:
    """T8b: the second process cannot have the session, so it gets a copy of what resuming would read."""
    offsets(log, said("a"), boundary("b"), said("c", 'the text "sessionId":"s-1" stays'))
    with branch(log.path, "s-2", home=log.home) as second:
        copied = [json.loads(each) for each in second.read()]
        assert [each["uuid"] for each in copied] == ["b", "b-summary", "c"]
        assert {each["sessionId"] for each in copied} == {"s-2"}
        assert copied[2]["message"]["content"] == 'the text "sessionId":"s-1" stays'
        second.append(said("d"))
    assert [json.loads(each)["uuid"] for each in log.read()] == ["a", "b", "b-summary", "c"]


def test_a_branch_of_a_log_that_is_being_written_has_whole_lines_only(log: SessionLog) -> None:
    log.append(said("a"))
    with log.path.open("ab") as other:
        other.write(b'{"half')
    with branch(log.path, "s-2", home=log.home) as second:
        assert [json.loads(each)["uuid"] for each in second.read()] == ["a"]
    with pytest.raises(TranscriptError, match="already at"):
        branch(log.path, "s-2", home=log.home)


@pytest.mark.parametrize("can_truncate", [True, False])
def test_a_record_after_a_failed_append_is_not_lost(
    log: SessionLog, monkeypatch: pytest.MonkeyPatch, can_truncate: bool
) -> None:
    """The disk takes half of a line, fails, cannot even shorten the file, and then works again."""
    log.append(said("one"))
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 2:
            raise OSError(errno.EIO, "Input/output error")
        return write(descriptor, bytes(data)[: len(data) // 2])

    def refuse(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        if not can_truncate:
            patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(TranscriptError, match="Input/output error"):
            log.append(said("two"))
    log.append(said("three"))
    lines = list(log.read())
    assert [lines[0], lines[-1]] == [said("one").rstrip(), said("three").rstrip()]
    assert len(lines) == (2 if can_truncate else 3)


def test_an_append_that_cannot_be_flushed_is_taken_back(
    log: SessionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(said("one"))

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(TranscriptError, match="Input/output error"):
            log.append(said("two"), sync=True)
    assert list(log.read()) == [said("one").rstrip()]
