"""How other programs, which parse frontmatter as YAML, read what we read line by line."""

from __future__ import annotations

from nacre.memory.frontmatter import NESTED_UNDER, Document

_CHECKED = ("name", "description", "type")


def misread_fields(document: Document) -> dict[str, str]:
    """What is wrong with the frontmatter as YAML, by the key that needs quotes; `""` when none would help."""
    header = document.header_text
    if not header:
        return {}
    tree = _parsed(header)
    if tree is None:
        guilty = [key for key in document.fields if _parsed(document.lines_of(key)) is None]
        mended = Document.parse(document.data)
        for key in guilty:
            mended = Document.parse(mended.with_quotes(key))
        if guilty and _parsed(mended.header_text) is not None:
            return dict.fromkeys(guilty, "is no valid YAML, which other programs need: put it in quotes")
        return {"": "is no valid YAML, which other programs need: correct it by hand"}
    below = tree.get(NESTED_UNDER)
    nested = below if isinstance(below, dict) else {}
    read = {key: tree.get(key, nested.get(key, "")) for key in _CHECKED if key in document.fields}
    return {
        key: f"is read as `{value}` by other programs: put it in quotes"
        for key, value in read.items()
        if isinstance(value, str) and value.split() != str(document.fields[key]).split()
    }


def _parsed(text: str) -> dict[str, object] | None:
    # Only lint needs the parser, and importing it takes longer than a scan.
    import yaml  # noqa: PLC0415

    try:
        tree = yaml.load(text, yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return {str(key): value for key, value in tree.items()} if isinstance(tree, dict) else {}
