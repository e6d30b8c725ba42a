"""One memory: read from any bytes, composed in the shape found, named for people to find (M11, M12)."""

from __future__ import annotations

from datetime import UTC, datetime
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.format.entry import (
    Entry,
    Kind,
    MemoryDraft,
    compose,
    description_of,
    file_name,
    file_subject,
    file_title,
    read_entry,
    title_of,
)
from nacre.memory.format.frontmatter import MarkdownFile

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
LATER = datetime(2026, 4, 1, tzinfo=UTC)


def test_a_new_memory_is_written_flat_and_reads_back_as_it_was_meant() -> None:
    draft = MemoryDraft(
        body="Likes tea: green.\n\n**Why:** said so",
        kind="user",
        name="Tea",
        description="Drinks green tea, never coffee",
        origin="agent",
        pinned=True,
        local_only=True,
        sources=("s1", "m1"),
    )
    data = compose(draft, file="tea.md", now=NOW)
    assert data.decode() == (
        "---\nname: Tea\ndescription: Drinks green tea, never coffee\ntype: user\n"
        "created: 2026-03-04T05:06:07Z\nmodified: 2026-03-04T05:06:07Z\nsource: [s1, m1]\norigin: agent\n"
        "pinned: true\nlocal-only: true\n---\n\nLikes tea: green.\n\n**Why:** said so\n"
    )
    assert read_entry("tea.md", data, written=LATER, indexed=True) == Entry(
        file="tea.md",
        name="Tea",
        description="Drinks green tea, never coffee",
        kind="user",
        body="Likes tea: green.\n\n**Why:** said so\n",
        created=NOW,
        modified=NOW,
        written=LATER,
        origin="agent",
        pinned=True,
        local_only=True,
        sources=("s1", "m1"),
        bytes=len(data),
        indexed=True,
    )


def test_a_bare_body_gets_a_title_and_a_description_of_its_own() -> None:
    entry = read_entry(
        "x.md", compose(MemoryDraft(body="The user is a pilot. Flies gliders.\n"), file="x.md", now=NOW)
    )
    assert (entry.name, entry.description, entry.kind) == (
        "The user is a pilot",
        "The user is a pilot. Flies gliders.",
        None,
    )


def test_an_update_keeps_shape_and_strangers_and_changes_what_was_given() -> None:
    """M11: nested stays nested, unknown keys and comments stay, only the lines meant change."""
    old = (
        b"---\nname: tea\ndescription: \"likes tea\"\nmood: good # keep\nmetadata: \n  node_type: memory\n"
        b"  type: user\n  originSessionId: 9c42\n  modified: 2026-01-01T00:00:00.000Z\n---\n\nGreen.\n"
    )  # fmt: skip
    new = compose(
        MemoryDraft(body="Black.\n", description="likes black tea", sources=("s2",)),
        file="tea.md",
        now=NOW,
        previous=MarkdownFile.parse(old),
    )
    assert new == old.replace(b'"likes tea"', b'"likes black tea"').replace(b"Green", b"Black").replace(
        b"2026-01-01T00:00:00.000Z\n", b"2026-03-04T05:06:07Z\n  source: [9c42, s2]\n"
    )


def test_a_description_that_was_worked_out_follows_the_body_and_a_written_one_stays() -> None:
    first = compose(MemoryDraft(body="Drinks tea. Daily.\n"), file="x.md", now=NOW)
    second = compose(
        MemoryDraft(body="Drinks cocoa.\n"), file="x.md", now=LATER, previous=MarkdownFile.parse(first)
    )
    assert read_entry("x.md", second).description == "Drinks cocoa."
    own = MarkdownFile.parse(MarkdownFile.parse(first).with_fields(description="what is drunk"))
    third = compose(MemoryDraft(body="Drinks cocoa.\n"), file="x.md", now=LATER, previous=own)
    assert read_entry("x.md", third).description == "what is drunk"


@pytest.mark.parametrize(
    ("before", "new", "after"),
    [
        ("untrusted", "agent", "untrusted"),
        ("untrusted", "user", "user"),
        ("agent", "untrusted", "untrusted"),
        ("user", "agent", "agent"),
        ("user", "untrusted", "untrusted"),
        ("agent", "user", "user"),
    ],
)
def test_only_the_user_makes_a_memory_more_trusted(before: str, new: str, after: str) -> None:
    """M16b."""
    first = MarkdownFile.parse(MarkdownFile.parse(b"body\n").with_fields(name="x", origin=before))
    data = compose(MemoryDraft(body="b", origin=new), file="x.md", now=NOW, previous=first)  # type: ignore[arg-type]
    assert read_entry("x.md", data).origin == after


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("type: USER", Entry(file="x.md", kind="user")),
        ("type: memory", Entry(file="x.md")),
        ("type: [user]", Entry(file="x.md", kind="user")),
        ("origin: Web-Page", Entry(file="x.md", origin="untrusted")),
        ("origin:", Entry(file="x.md")),
        ("pinned: yes", Entry(file="x.md", pinned=True)),
        ("local_only: true", Entry(file="x.md", local_only=True)),
        ("indexed: false", Entry(file="x.md", is_unlisted=True)),
        ("modified: 2026-03-04", Entry(file="x.md", modified=datetime(2026, 3, 4, tzinfo=UTC))),
        ("modified: 2026-03-04T06:06:07+01:00", Entry(file="x.md", modified=NOW)),
        ("modified: 0001-01-01T00:00:00+14:00", Entry(file="x.md")),
        ("modified: last week", Entry(file="x.md")),
        ("description: |\n  two\n  lines", Entry(file="x.md", description="two lines")),
        ("source: s1", Entry(file="x.md", sources=("s1",))),
    ],
)
def test_a_key_is_read_with_goodwill(line: str, entry: Entry) -> None:
    """M12: an unknown type is untyped, not an error; M16b: an unknown origin is not trusted."""
    data = f"---\n{line}\n---\n".encode()
    read = read_entry("x.md", data)
    assert read == Entry(**{**{f: getattr(entry, f) for f in entry.__slots__}, "bytes": len(data)})


def test_an_entry_without_a_name_is_called_by_its_file() -> None:
    assert Entry(file="team/build_and-test.md").title == "build and test"


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("User likes tea", "user_likes_tea.md"),
        ("Don't mock the DB!", "dont_mock_the_db.md"),
        ("Café Größe", "cafe_grosse.md"),
        ("用户喜欢茶：不加糖", "用户喜欢茶_不加糖.md"),
        ("ドラゴン ボール", "ドラゴン_ボール.md"),
        ("한국어 노트", "한국어_노트.md"),
        ("Привет, мир", "привет_мир.md"),
        ("हिन्दी", "हिन्दी.md"),
        ("ＦＵＬＬ\u3000ｗｉｄｔｈ", "full_width.md"),
        ("../../etc/passwd", "etc_passwd.md"),
        (".hidden", "hidden.md"),
        ("", "untitled.md"),
        ("🙂", "untitled.md"),
        ("MEMORY", "memory_note.md"),
        ("CON", "con_note.md"),
        ("a" * 300, "a" * 60 + ".md"),
    ],
)
def test_a_file_is_named_after_its_title(title: str, name: str) -> None:
    assert file_name(title) == name


@pytest.mark.parametrize(
    ("kind", "title", "name"),
    [
        ("project", "We deploy on Fridays", "project_deploy_fridays.md"),
        ("feedback", "Never mock the database in these tests", "feedback_no_mock_database_tests.md"),
        ("user", "The user prefers tea", "user_prefers_tea.md"),
        ("user", "User", "user_user.md"),
        ("feedback", "feedback_no_db_mocks", "feedback_no_db_mocks.md"),
        ("project", "The launch is on 2026-11-16", "project_launch.md"),
        ("project", "2026-11-16", "project_2026_11_16.md"),
        ("project", "One two three four five six seven", "project_one_two_three_four_five.md"),
        ("project", "It is what it is", "project_what.md"),
        ("project", "This is it", "project_this_is_it.md"),
        ("project", "🙂", "project_note.md"),
        (None, "Lives in Porto", "lives_porto.md"),
        ("user", "मुझे चाय पसंद है", "user_मुझे_चाय_पसंद_है.md"),
        ("reference", "缺陷都记在 Linear 里", "reference_缺陷都记在linear里.md"),
        (
            "project",
            "我们下个版本的发布时间要由产品经理和测试负责人一起决定",
            "project_我们下个版本的发布时间要由产品经理.md",
        ),
        (
            "project",
            "Donaudampfschifffahrtsgesellschaft Rechtsschutzversicherungsgesellschaft",
            "project_donaudampfschifffahrtsgesellschaft.md",
        ),
    ],
)
def test_a_new_file_is_named_by_its_kind_and_its_subject_in_whole_words(
    kind: Kind | None, title: str, name: str
) -> None:
    """M11."""
    assert file_name(file_title(kind, title)) == name


def test_the_subject_of_a_file_name_is_what_follows_its_kind() -> None:
    subjects = [file_subject(file) for file in ("feedback_no_mocks.md", "user.md", "team/deploy_day.md")]
    assert subjects == ["no mocks", "user", "deploy day"]


def test_a_name_that_is_taken_gets_a_number() -> None:
    """Also where only some file systems take two names for one."""
    assert file_name("Tea", taken=["TEA.md", "tea_2.md", "sub/tea_3.md"]) == "tea_4.md"
    assert file_name("é", taken=[]) == "e.md"


@given(st.text(), st.lists(st.text(max_size=8), max_size=5))
def test_any_title_gives_a_safe_and_stable_name(title: str, others: list[str]) -> None:
    taken = [file_name(other) for other in others]
    name = file_name(title, taken=taken)
    stem = name.removesuffix(".md")
    assert name not in taken
    assert stem
    assert not set(stem) & set('/\\\0:*?"<>| .%')
    assert len(name.encode()) <= 220
    assert stem.isprintable()
    assert file_name(stem) == f"{stem}.md" or stem.split("_")[-1] in {"note", *map(str, range(9))}


@given(st.text())
def test_titles_and_descriptions_are_one_bounded_line(body: str) -> None:
    for text, limit in ((title_of(body), 60), (description_of(body, title_of(body)), 150)):
        assert len(text) <= limit
        assert text.isprintable()


@pytest.mark.parametrize(
    ("body", "title", "description"),
    [
        ("# Tea\n\nThe user likes **green** tea. Daily.", "Tea", "The user likes green tea."),
        ("- Never [push](x) on Friday!\n- x", "Never push on Friday", "Never push on Friday!"),
        ("```\ncode\n```\nText", "Text", "Text"),
        ("用户喜欢茶。每天都喝。", "用户喜欢茶", "用户喜欢茶。每天都喝。"),
        ("Version 2.5 is out. Yes.", "Version 2.5 is out", "Version 2.5 is out. Yes."),
        ("# Only a heading", "Only a heading", "Only a heading"),
        ("word " * 60, "Word word word word word word word word word word word…", "word " * 28 + "word…"),
        ("", "", ""),
    ],
)
def test_the_first_sentence_stands_for_a_body(body: str, title: str, description: str) -> None:
    assert (title_of(body), description_of(body, title_of(body))) == (title, description)


@pytest.mark.parametrize(
    ("body", "title", "description"),
    [
        ("we can't upgrade, the sdk pins version 20", "We can't upgrade", "the sdk pins version 20"),
        ("Use uv here, not pip.", "Use uv here", "Use uv here, not pip."),
        (
            "No mocks in these tests.\n\n**Why:** a migration failed in production",
            "No mocks in these tests",
            "a migration failed in production",
        ),
        ("please never push to main", "Never push to main", "please never push to main"),
        ("iOS builds run at night", "iOS builds run at night", "iOS builds run at night"),
        ("src/api.py is generated", "src/api.py is generated", "src/api.py is generated"),
    ],
)  # fmt: skip
def test_a_title_is_the_first_clause_and_a_description_adds_to_it(
    body: str, title: str, description: str
) -> None:
    assert (title_of(body), description_of(body, title_of(body))) == (title, description)


def test_a_description_under_a_given_title_is_the_whole_sentence() -> None:
    assert description_of("We can't upgrade, the payment sdk pins version 20.", "Node") == (
        "We can't upgrade, the payment sdk pins version 20."
    )


def test_a_title_of_an_older_file_that_was_its_first_sentence_follows_the_body() -> None:
    old = b"---\nname: we ship on Monday, never later\ndescription: we ship on Monday, never later\n---\n\n"
    previous = MarkdownFile.parse(old + b"we ship on Monday, never later\n")
    entry = read_entry(
        "x.md", compose(MemoryDraft(body="We ship on Friday."), file="x.md", now=NOW, previous=previous)
    )
    assert (entry.name, entry.description) == ("We ship on Friday", "We ship on Friday.")


@pytest.mark.parametrize("sign", [",", ". ", "no, ", "("])
def test_a_long_line_of_signs_is_titled_quickly(sign: str) -> None:
    body = sign * 100_000
    started = perf_counter()
    title_of(body)
    description_of(body, title_of(body))
    assert perf_counter() - started < 5


@given(st.binary(max_size=200))
def test_any_bytes_are_an_entry(data: bytes) -> None:
    assert read_entry("x.md", data).bytes == len(data)


@given(st.text(), st.text(), st.text(), st.binary(max_size=100))
def test_what_is_composed_reads_back(body: str, name: str, description: str, old: bytes) -> None:
    draft = MemoryDraft(body=body, name=name, description=description, kind="project")
    for previous in (None, MarkdownFile.parse(old)):
        entry = read_entry("x.md", compose(draft, file="x.md", now=NOW, previous=previous))
        assert (entry.kind, entry.modified) == ("project", NOW)
        assert entry.name
        if draft.name.isprintable() and draft.name.split():
            assert entry.name == " ".join(draft.name.split())
        if body.isprintable() and body.strip():
            assert entry.body.strip() == body.strip()
