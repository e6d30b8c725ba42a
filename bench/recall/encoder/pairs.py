"""Collects public texts with their translations: `python -m bench.recall.encoder.pairs CLONES WORK`.

CLONES has the checked-out repositories that README.md lists. Writes `pairs.tsv.gz` to WORK, one line for each
pair: language, source, English, translation.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

Pair = tuple[str, str, str, str]
"""Language, source, English, translation."""
LANGUAGES = ("zh", "ja", "de", "es", "fr")
TATOEBA = {"zh": "Transformer/cmn.txt", "de": "Language-Translation/data/deu.txt"}
PYTHON_DOCS = {
    "zh": "python-docs-zh-cn",
    "ja": "python-docs-ja",
    "es": "python-docs-es",
    "fr": "python-docs-fr",
}
MATTERMOST = {"zh": "zh-CN", "ja": "ja", "de": "de", "es": "es", "fr": "fr"}
GITEA = {"zh": "zh-CN", "ja": "ja-JP", "de": "de-DE", "es": "es-ES", "fr": "fr-FR"}
MAX_CHARS = 400
SEED = 7
_CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_ENTRY = re.compile(r'^msgid ((?:".*"\n)+)msgstr ((?:".*"\n)+)', re.M)
_TRANSLATED_COMMENT = re.compile(r"<!--[ \t]*\n?((?:(?!-->).)*)-->[ \t]*\n((?:(?!<!--).)+)", re.S)
"""Kubernetes' Chinese pages have the English text in a comment before each paragraph."""
_MARKUP = (
    (re.compile(r"\{\{<[^>]*?text=\"([^\"]*)\"[^>]*>\}\}"), r"\1"),
    (re.compile(r"\{\{[<%].*?[>%]\}\}|<[^>]+>|`{1,3}|\*\*?|:[\w:]+:|\[\^?\d+\]"), ""),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"\s+"), " "),
)


def plain(text: str) -> str:
    """Return a text without the markup of Markdown, reStructuredText and Hugo."""
    for pattern, new in _MARKUP:
        text = pattern.sub(new, text)
    return text.strip(" #-*>_")


def is_pair(language: str, english: str, other: str) -> bool:
    """Whether two texts can be translations: English on one side only, and of similar length."""
    if not english or not other or english == other or max(len(english), len(other)) > MAX_CHARS:
        return False
    if 2 * sum(c.isalpha() and c.isascii() for c in english) < len(english):
        return False
    ratio = len(other) / len(english)
    if language in ("zh", "ja"):
        return bool(_CJK.search(other)) and not _CJK.search(english) and 0.12 < ratio < 1.2
    return 0.5 < ratio < 2.2


def tatoeba(clones: Path) -> Iterator[Pair]:
    """Sentences of Tatoeba: English, tab, translation."""
    for language, name in TATOEBA.items():
        for line in (clones / name).read_text(encoding="utf-8").splitlines():
            fields = line.split("\t")
            if len(fields) >= 2:
                yield language, "tatoeba", fields[0], fields[1]


def python_docs(clones: Path) -> Iterator[Pair]:
    """Messages of the translated documentation of Python."""
    for language, name in PYTHON_DOCS.items():
        for path in sorted((clones / name).rglob("*.po")):
            if "changelog" in path.name:
                continue
            for english, other in _ENTRY.findall(path.read_text(encoding="utf-8").replace("\r", "")):
                try:
                    yield language, "python", _unquoted(english), _unquoted(other)
                except ValueError:
                    continue  # an escape that JSON does not have


def _unquoted(lines: str) -> str:
    return "".join(json.loads(line) for line in lines.splitlines() if "\\x" not in line)


def interfaces(clones: Path) -> Iterator[Pair]:
    """Texts of the user interfaces of Mattermost and Gitea."""
    places = (
        ("mattermost", clones / "mattermost-webapp" / "i18n", "{}.json", "en", MATTERMOST),
        ("gitea", clones / "gitea" / "options" / "locale", "locale_{}.json", "en-US", GITEA),
    )
    for source, folder, form, original, names in places:
        english = _texts(folder / form.format(original))
        for language, name in names.items():
            for key, text in _texts(folder / form.format(name)).items():
                if key in english:
                    yield language, source, english[key], text


def _texts(path: Path) -> dict[str, str]:
    """Return the texts of a JSON file by their keys, those of nested objects joined by dots."""

    def flat(values: dict[str, object], before: str) -> Iterator[tuple[str, str]]:
        for key, value in values.items():
            if isinstance(value, dict):
                yield from flat(value, f"{before}{key}.")
            elif isinstance(value, str):
                yield before + key, value

    return dict(flat(json.loads(path.read_text(encoding="utf-8")), ""))


def kubernetes(clones: Path) -> Iterator[Pair]:
    """Paragraphs of the documentation of Kubernetes, where a page and its translation have the same ones."""
    content = clones / "website" / "content"
    for path in _pages(content / "zh-cn"):
        for english, other in _TRANSLATED_COMMENT.findall(path.read_text(encoding="utf-8")):
            parts = [re.split(r"\n\s*\n|\n(?=[-*#] )", one.strip()) for one in (english, other)]
            if len(parts[0]) == len(parts[1]):
                for one, two in zip(*parts, strict=True):
                    yield "zh", "kubernetes", one, two
    for language in ("ja", "de", "fr", "es"):
        for path in _pages(content / language):
            original = content / "en" / path.relative_to(content / language)
            if original.is_file():
                for one, two in _paragraphs_of(original, path):
                    yield language, "kubernetes", one, two


def _pages(folder: Path) -> list[Path]:
    """Return the Markdown files; a page with pictures is a folder with such a name."""
    return sorted(path for path in folder.rglob("*.md") if path.is_file())


def _paragraphs_of(original: Path, translated: Path) -> list[tuple[str, str]]:
    ours, theirs = _paragraphs(original), _paragraphs(translated)
    if len(ours) != len(theirs):
        return []
    pairs = list(zip(ours, theirs, strict=True))
    alike = sum(one.startswith("#") == two.startswith("#") for one, two in pairs)
    return pairs if alike >= 0.95 * len(pairs) else []


def _paragraphs(path: Path) -> list[str]:
    text = re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r"^---.*?---", "", text, flags=re.S)
    text = re.sub(r"```.*?```", "\n\nCODE\n\n", text, flags=re.S)
    return [one for one in re.split(r"\n\s*\n", text) if one.strip()]


def collect(clones: Path) -> list[Pair]:
    """Return the pairs of all sources, by language, each language in random order."""
    found: dict[str, set[Pair]] = {}
    for source in (tatoeba, python_docs, interfaces, kubernetes):
        for language, name, english, other in source(clones):
            one, two = plain(english), plain(other)
            if is_pair(language, one, two):
                found.setdefault(language, set()).add((language, name, one, two))
    chance = random.Random(SEED)
    pairs: list[Pair] = []
    for language in LANGUAGES:
        own = sorted(found.get(language, ()))
        chance.shuffle(own)
        pairs += own
    return pairs


def read_pairs(work: Path) -> list[Pair]:
    """Return the pairs of a work folder."""
    with gzip.open(work / "pairs.tsv.gz", "rt", encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        return [(language, source, english, other) for language, source, english, other in rows]


def main(clones: Path, work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    pairs = collect(clones)
    with gzip.open(work / "pairs.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines("\t".join(one) + "\n" for one in pairs)
    for (language, source), count in sorted(Counter(one[:2] for one in pairs).items()):
        print(language, source, count)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m bench.recall.encoder.pairs CLONES WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
