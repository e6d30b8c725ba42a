"""Frontmatter under arbitrary text: nothing raises, an edit is read back, every other byte stays (M11)."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.format.frontmatter import MarkdownFile

KEYS = st.sampled_from(["name", "description", "type", "modified", "pinned", "x-own", "source", "标题"])
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=30)
VALUES = st.one_of(
    st.sampled_from(["likes tea", "user: likes tea", '"a" b', "'a'  # c", "[a, b]", "[a", ""]),
    st.sampled_from(["# c", "x #1", "{a: b} c", ">\n  folded\n  text", "|\n  kept\n   text"]),
    st.sampled_from(["one\n  two", '"one\n  two"', "\n  - a\n  - b"]),
    PLAIN.map(lambda text: text.strip()),
)
LINES = st.one_of(
    st.builds("{}: {}".format, KEYS, VALUES),
    st.sampled_from(
        ["# a comment", "", "metadata:\n  type: user\n  own: 1", "metadata: {type: user, own: 'x'}"]
    ),
)
BODIES = st.sampled_from(["", "\nbody\n", "body", "\n\n# Title\n\n---\nname: not mine\n", "\n- a: b\n"])
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(LINES, max_size=6))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    text = f"---\n{''.join(line + chr(10) for line in lines)}---\n{draw(BODIES)}"
    return (mark + text.replace("\n", draw(ENDS))).encode()


@given(st.binary(max_size=300) | st.binary(max_size=200).map(lambda data: b"---\n" + data), st.text(), PLAIN)
def test_arbitrary_bytes_are_read_kept_and_edited(data: bytes, value: str, body: str) -> None:
    document = MarkdownFile.parse(data)
    assert document.data == data
    assert document.with_fields() == data
    assert document.with_body(document.body) == data
    edited = MarkdownFile.parse(document.with_fields(description=value))
    assert edited.fields["description"] == value
    assert document.body.strip() in edited.body
    MarkdownFile.parse(document.with_body(body))
    MarkdownFile.parse(document.closed())


@given(files(), st.sampled_from(["name", "description", "type", "modified", "fresh"]), st.text())
def test_an_edit_is_read_back_and_nothing_else_changes(data: bytes, key: str, value: str) -> None:
    document = MarkdownFile.parse(data)
    new = document.with_fields(**{key: value})
    edited = MarkdownFile.parse(new)
    assert dict(edited.fields) == {**document.fields, key: value}
    assert edited.body == document.body
    assert edited.with_fields(**{key: value}) == new
    if document.has_frontmatter:
        assert_one_place(data, new)


@given(files(), st.sampled_from(["name", "description", "type"]))
def test_a_removed_key_is_gone_and_nothing_else_changes(data: bytes, key: str) -> None:
    document = MarkdownFile.parse(data)
    times = sum(1 for _ in range(9) if key in document.fields)
    while key in document.fields and times:
        new = document.with_fields(**{key: None})
        assert_one_place(document.data, new)
        rest = {name: value for name, value in MarkdownFile.parse(new).fields.items() if name != key}
        assert rest == {name: value for name, value in document.fields.items() if name != key}
        document = MarkdownFile.parse(new)
        times -= 1
    assert document.body == MarkdownFile.parse(data).body


@given(files(), st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1))
def test_another_body_is_read_back_below_the_same_fields(data: bytes, body: str) -> None:
    document = MarkdownFile.parse(data)
    edited = MarkdownFile.parse(document.with_body(body))
    assert dict(edited.fields) == dict(document.fields)
    assert edited.body.rstrip() == body.lstrip(" \t\n").rstrip() or edited.body in body


def assert_one_place(old: bytes, new: bytes) -> None:
    """What differs between the two is one run of bytes, and what stands before and after it is equal."""
    start = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    room = min(len(old), len(new)) - start
    same = next((n for n in range(room) if old[-1 - n] != new[-1 - n]), room)
    gone = old[start : len(old) - same]
    assert gone.count(b"\n") <= 4
    assert b"---\n" not in gone.replace(b"\r", b"")


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029")),
    PLAIN,
    st.lists(PLAIN, max_size=4),
    st.booleans(),
    st.sampled_from([None, '"', "'"]),
)
def test_what_a_yaml_writer_wrote_is_read_as_it_was_meant(
    name: str, deep: str, items: list[str], flow: bool, style: str | None
) -> None:
    """The line reader agrees with the reference parser on what that parser's own writer writes."""
    tree = {"name": name, "source": items, "metadata": {"type": deep}}
    # A map in braces over several lines is the one form that is read as text; nobody writes memories so.
    layout = {"default_flow_style": None, "width": 10_000} if flow else {"default_flow_style": False}
    text = yaml.safe_dump(tree, allow_unicode=True, default_style=style, sort_keys=False, **layout)
    read = MarkdownFile.parse(f"---\n{text}---\nbody\n".encode()).fields
    expected = {"name": name, "source": tuple(items), "type": deep}
    assert {key: read.get(key) for key in expected} == expected
