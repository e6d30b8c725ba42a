"""A topic file's frontmatter: both shapes and every oddity read, edits that touch nothing else (M11)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import yaml

from nacre.memory.format.frontmatter import MarkdownFile

FLAT = b"---\nname: Tea\ndescription: likes tea\ntype: user\n---\n\nGreen, no sugar.\n"
NESTED = (
    b"---\nname: tea\ndescription: \"likes tea\"\nmetadata: \n  node_type: memory\n  type: user\n"
    b"  originSessionId: 9c42\n  modified: 2026-08-01T17:44:47.812Z\n---\n\nGreen.\n"
)  # fmt: skip
WHEN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def fields(text: str) -> dict[str, object]:
    return dict(MarkdownFile.parse(text.encode()).fields)


def kinds(data: bytes) -> list[str]:
    return [problem.kind for problem in MarkdownFile.parse(data).problems]


def test_both_shapes_say_the_same_by_name() -> None:
    """M11: flat keys, and keys below `metadata` with the blank that real files have behind it."""
    assert fields(FLAT.decode()) == {"name": "Tea", "description": "likes tea", "type": "user"}
    assert fields(NESTED.decode()) == {
        "name": "tea",
        "description": "likes tea",
        "node_type": "memory",
        "type": "user",
        "originSessionId": "9c42",
        "modified": "2026-08-01T17:44:47.812Z",
    }
    assert MarkdownFile.parse(NESTED).is_nested
    assert not MarkdownFile.parse(FLAT).is_nested
    assert fields("---\nname: x\nmetadata: {node_type: memory, type: 'user'}\n---\n") == {
        "name": "x",
        "node_type": "memory",
        "type": "user",
    }


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("description: user: likes tea", "user: likes tea"),
        ('description: "fla" is short for "fiat"', '"fla" is short for "fiat"'),
        ("description: closes #44, hex (no #)", "closes #44, hex (no #)"),
        ("description: likes tea  # says the barista", "likes tea"),
        ("description: 'it''s tea'  # quoted", "it's tea"),
        (r'description: "a \"cup\"\tof caf\u00e9 \x41"', 'a "cup"\tof café A'),
        ("description: `npm test` first", "`npm test` first"),
        ("description: [WIP] rewrite", "[WIP] rewrite"),
        ("description: {half", "{half"),
        ("description: | not a block", "| not a block"),
        ('description: "never closed', '"never closed'),
        ("description: @here & *there*", "@here & *there*"),
        ("description:\tlikes tea", "likes tea"),
        ("description:", ""),
        ("description: # nothing said", ""),
        ("description: ~", "~"),
        ("description: 喝茶：不加糖", "喝茶：不加糖"),
        ('"description": likes tea', "likes tea"),
        ("description : likes tea", "likes tea"),
        ("description: one\n  two\n  three", "one two three"),
        ("description:\n  one\n  two", "one two"),
        ("description: >\n  one\n  two\n\n  three", "one two\nthree"),
        ("description: |-\n  one\n    two", "one\n  two"),
        ('description: "one\n  two"', "one two"),
        ("description: ~/x: y", "~/x: y"),
    ],
)
def test_a_line_is_read_as_it_was_meant(line: str, read: str) -> None:
    """M11: what models write is often no YAML; the key below it is read all the same."""
    assert fields(f"---\nname: x\n{line}\ntype: user\n---\nbody\n") == {
        "name": "x",
        "description": read,
        "type": "user",
    }


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        ("source: [a, 'b, c', \"d\"]", ("a", "b, c", "d")),
        ("source: []", ()),
        ("source:\n  - a\n  - 'b: c'", ("a", "b: c")),
        ("source:\n- a\n# why\n- b", ("a", "b")),
        ("source: [a,\n  b]", ("a", "b")),
    ],
)
def test_lists_are_read_in_every_form(lines: str, read: tuple[str, ...]) -> None:
    assert fields(f"---\n{lines}\ntype: user\n---\n") == {"source": read, "type": "user"}


def test_a_key_indented_by_mistake_is_still_a_key() -> None:
    assert fields("---\nname: x\n description: y\n type: user\n---\n") == {
        "name": "x",
        "description": "y",
        "type": "user",
    }


def test_keys_below_other_keys_are_named_by_their_path() -> None:
    assert fields("---\nname: x\npaths:\n  main: a\n  deep:\n    er: b\n---\n") == {
        "name": "x",
        "paths.main": "a",
        "paths.deep.er": "b",
    }


def test_the_top_speaks_before_the_nested_and_the_last_before_the_first() -> None:
    data = b"---\ntype: user\ntype: project\nmetadata:\n  type: feedback\n---\n"
    assert MarkdownFile.parse(data).fields["type"] == "project"
    assert kinds(data) == ["duplicate"]
    assert MarkdownFile.parse(data).with_fields(type="reference") == data.replace(b"project", b"reference")


@pytest.mark.parametrize(
    ("data", "problems", "read", "body"),
    [
        (b"no fences\n", [], {}, "no fences\n"),
        (b"", [], {}, ""),
        (b"---\n---\nbody\n", [], {}, "body\n"),
        (b"---\nname: x\ntype: user\n", ["unterminated"], {"name": "x", "type": "user"}, ""),
        (b"---\nname: x\n\n# T\n\nText: more\n", ["unterminated"], {"name": "x"}, "# T\n\nText: more\n"),
        (b"---\nname: x\n\nProse.\n\n---\nrest\n", ["unterminated"], {"name": "x"}, "Prose.\n\n---\nrest\n"),
        (b"---\n- a\n- b\n---\nbody\n", ["not-a-map"], {}, "---\n- a\n- b\n---\nbody\n"),
        (b"---\n\nA rule above.\n", ["unterminated"], {}, "---\n\nA rule above.\n"),
        (b"\n\n---\nname: x\n---\nbody", ["late"], {"name": "x"}, "body"),
        (b"---\nname: x\nwhat is this\n---\nbody", ["stray"], {"name": "x"}, "body"),
        (b"\xef\xbb\xbf---\r\nname: x\r\n---\r\n\r\na\r\nb\r\n", [], {"name": "x"}, "a\nb\n"),
        (b"---\nname: caf\xe9\n---\nb\xff", ["encoding"], {"name": "caf\ufffd"}, "b\ufffd"),
        (b"---   \nname: x\n---  \nbody", [], {"name": "x"}, "body"),
        (b"----\nname: x\n----\n", [], {}, "----\nname: x\n----\n"),
    ],
)  # fmt: skip
def test_bad_input_is_read_as_far_as_it_goes(
    data: bytes, problems: list[str], read: dict[str, str], body: str
) -> None:
    """The table of bad input: reported, never raised."""
    document = MarkdownFile.parse(data)
    assert ([one.kind for one in document.problems], dict(document.fields), document.body) == (
        problems,
        read,
        body,
    )
    assert document.data == data


def test_a_frontmatter_over_thirty_lines_is_reported() -> None:
    """A scan sees 30 lines only; the fence is the last of them that may count."""
    fits = b"---\n" + b"".join(b"k%d: v\n" % n for n in range(28)) + b"---\nbody\n"
    long = b"---\n" + b"".join(b"k%d: v\n" % n for n in range(29)) + b"---\nbody\n"
    assert kinds(fits) == []
    assert kinds(long) == ["long"]
    assert MarkdownFile.parse(long).body == "body\n"


def test_an_edit_changes_only_its_own_line() -> None:
    """M11: order, quotes, comments, unknown keys, line ends and the mark at the front stay."""
    data = (
        b"\xef\xbb\xbf---\r\n# mine\r\nname:  'Tea'   # title\r\nweird_key: [1,2 ]\r\n"
        b'description: "likes tea"\r\n'
        b"\r\ntype: user # who\r\n---\r\n\r\n\r\nbody \r\nmixed\n"
    )
    edit = MarkdownFile.parse(data).with_fields
    assert edit(name="Coffee") == data.replace(b"'Tea'", b"'Coffee'")
    assert edit(description='it\'s: "x"') == data.replace(b'"likes tea"', rb'"it' + rb"'s: \"x\"" + rb'"')
    assert edit(type="project") == data.replace(b"user #", b"project #")
    assert edit(type=None) == data.replace(b"type: user # who\r\n", b"")
    assert edit(modified=WHEN) == data.replace(b"# who\r\n", b"# who\r\nmodified: 2026-03-04T05:06:07Z\r\n")
    assert edit(type="user", description="likes tea", gone=None) == data


def test_a_new_key_takes_the_shape_and_place_of_its_kin() -> None:
    """M11: nested stays nested, flat stays flat; name and description always stand at the top."""
    edit = MarkdownFile.parse(NESTED).with_fields
    assert edit(pinned=True) == NESTED.replace(b"812Z\n", b"812Z\n  pinned: true\n")
    assert edit(type="project") == NESTED.replace(b"type: user", b"type: project")
    assert edit(created=WHEN) == NESTED.replace(b"9c42\n", b"9c42\n  created: 2026-03-04T05:06:07Z\n")
    assert MarkdownFile.parse(FLAT).with_fields(pinned=True) == FLAT.replace(
        b"user\n", b"user\npinned: true\n"
    )
    assert MarkdownFile.parse(b"---\ntype: user\n---\n").with_fields(description="d", name="m") == (
        b"---\nname: m\ndescription: d\ntype: user\n---\n"
    )
    flow = b"---\nname: m\nmetadata: { type: user, x: 'y' }  # c\n---\n"
    edit = MarkdownFile.parse(flow).with_fields
    assert edit(type="a, b") == flow.replace(b"user", b'"a, b"')
    assert edit(pinned=True) == flow.replace(b"'y' }", b"'y', pinned: true }")
    assert edit(type=None) == flow.replace(b"type: user, ", b"")
    assert edit(x=None) == flow.replace(b", x: 'y'", b"")


def test_a_file_without_frontmatter_gets_one_above_its_text() -> None:
    assert MarkdownFile.parse(b"text\n").with_fields(name="m", type="user") == (
        b"---\nname: m\ntype: user\n---\n\ntext\n"
    )
    assert MarkdownFile.parse(b"").with_fields(name="m") == b"---\nname: m\n---\n"
    marked = MarkdownFile.parse(b"\xef\xbb\xbfa\r\nb").with_fields(name="m")
    assert marked == b"\xef\xbb\xbf---\r\nname: m\r\n---\r\n\r\na\r\nb"


def test_values_over_several_lines_are_replaced_whole() -> None:
    block = b"---\ndescription: >-\n  one\n  two\n\ntype: user\n---\n"
    assert (
        MarkdownFile.parse(block).with_fields(description="x") == b"---\ndescription: x\n\ntype: user\n---\n"
    )
    items = b"---\nsource:\n    - a\n    - b\ntype: user\n---\n"
    assert MarkdownFile.parse(items).with_fields(source=["c", "d: e", "f"]) == (
        b'---\nsource:\n    - c\n    - "d: e"\n    - f\ntype: user\n---\n'
    )
    assert MarkdownFile.parse(items).with_fields(source=[]) == b"---\nsource: []\ntype: user\n---\n"
    assert MarkdownFile.parse(items).with_fields(source=None) == b"---\ntype: user\n---\n"
    assert MarkdownFile.parse(FLAT).with_fields(source=["s1", "m, 2"]) == FLAT.replace(
        b"type: user\n", b'type: user\nsource: [s1, "m, 2"]\n'
    )


def test_a_key_that_holds_keys_is_not_overwritten() -> None:
    with pytest.raises(ValueError, match="change those"):
        MarkdownFile.parse(NESTED).with_fields(metadata="x")


def test_a_map_where_words_belong_is_replaced() -> None:
    assert MarkdownFile.parse(b"---\ntype: {a: b}  # c\n---\n").with_fields(type="user") == (
        b"---\ntype: user  # c\n---\n"
    )
    assert MarkdownFile.parse(b"---\ntype:\n  a: b\nname: x\n---\n").with_fields(type="user") == (
        b"---\ntype: user\nname: x\n---\n"
    )


def test_another_body_leaves_the_frontmatter_alone() -> None:
    assert MarkdownFile.parse(FLAT).with_body("Black.\n") == FLAT.replace(b"Green, no sugar.", b"Black.")
    crlf = b"---\r\nname: x\r\n---\r\nold\r\n"
    assert MarkdownFile.parse(crlf).with_body("a\nb\n") == b"---\r\nname: x\r\n---\r\n\r\na\r\nb\r\n"
    assert MarkdownFile.parse(b"---\nname: x\n---").with_body("b") == b"---\nname: x\n---\n\nb"
    assert MarkdownFile.parse(b"---\nname: x\n\nold\n").with_body("new\n") == b"---\nname: x\n---\n\nnew\n"
    bare = MarkdownFile.parse(MarkdownFile.parse(b"old").with_body("---\na: b\n---\n"))
    assert (dict(bare.fields), bare.body) == ({}, "---\na: b\n---\n")


def test_a_missing_fence_can_be_added() -> None:
    data = b"---\nname: x\n\nold\n"
    assert MarkdownFile.parse(data).closed() == b"---\nname: x\n---\n\nold\n"
    assert MarkdownFile.parse(FLAT).closed() == FLAT


@pytest.mark.parametrize(
    "text",
    ["", " x", "x ", "a: b", "a:", "#x", "a #b", "- x", "true", "No", "null", "~", "12", "1e3", "0x1f",
     "1:30", "2026-01-02", "2026-01-02T03:04:05Z", "[a]", "{a}", "'a'", '"a"', "a\nb", "a\tb", "a\\b", "&a",
     "*a", "!a", "|", "> a", "%a", "@a", "`a`", "?", "? a", "-", "=", "<<", ".5", "+1", ".inf", "a\u2028b",
     "\ufeff", "a\x00b", "é：茶", "a, b", "it's", 'say "x"', "key: [", "...", "---", "😀", "a  b", "1_000",
     "0o7", ".", "y", "190:20:30"],
)  # fmt: skip
def test_what_is_written_reads_the_same_for_every_yaml_reader(text: str) -> None:
    """M11: quoted only where YAML needs it, and then in a way that YAML reads back."""
    for data in (FLAT, NESTED, b"---\nmetadata: {type: user}\n---\n"):
        for key in ("description", "type", "origin"):
            new = MarkdownFile.parse(data).with_fields(**{key: text})
            assert MarkdownFile.parse(new).fields[key] == text
            tree = yaml.safe_load(new.split(b"---")[1] if text != "---" else new[4 : new.rindex(b"\n---")])
            assert {**tree, **(tree.get("metadata") or {})}[key] == text


@pytest.mark.parametrize(
    "text", ["plain words", "9c42fe2a-bd64", "C++ (fast)", "a/b.c, d", "it's", "50 %", "f(x) = y"]
)
def test_ordinary_words_stay_without_quotes(text: str) -> None:
    new = MarkdownFile.parse(FLAT).with_fields(description=text)
    assert new == FLAT.replace(b"likes tea", text.encode())


@pytest.mark.parametrize(
    "line",
    ["a{}x", "a: x{}#x", "a: [{}", "a: {{b{}", "a: {{b: c{}", 'a: "x{}', "a: >\n {}\n b", "- {}x"],
)
def test_a_line_of_endless_blanks_is_read_in_one_pass(line: str) -> None:
    """A hostile file must not stop a scan; a pattern that goes back would need hours for these."""
    data = f"---\n{line.format(' ' * 300_000)}\ntype: user\n---\nbody\n".encode()
    assert MarkdownFile.parse(data).fields["type"] == "user"
