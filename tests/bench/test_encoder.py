"""The steps of the encoder's training that need no PyTorch, on made-up texts and weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="vectors need numpy: install the extra `embed`")

from bench.recall.encoder import export, pairs, prepare  # noqa: E402
from bench.recall.everyday.people import own_people  # noqa: E402
from nacre.memory.recall.ranking.notes import encoded_segments  # noqa: E402
from nacre.memory.recall.semantic.minilm import MiniLm, WordPiece, _Tensors  # noqa: E402
from tests.memory.recall.semantic import plain  # noqa: E402


def file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """The files of every source, with one or two texts each."""
    folder = tmp_path / "clones"
    file(folder / "Transformer/cmn.txt", "I am late.\t我迟到了。\tCC-BY\nno tab\nSame\tSame\n")
    file(folder / "Language-Translation/data/deu.txt", "I am late.\tIch bin spät.\n")
    entry = 'msgid ""\n"Open a "\n"``file``"\nmsgstr ""\n{}\n'
    for language, text in (
        ("zh-cn", "打开一个文件"),
        ("ja", "ファイルを開く"),
        ("es", "Abrir archivo"),
        ("fr", "Ouvrir"),
    ):
        file(folder / f"python-docs-{language}/library/io.po", entry.format(f'"{text}"'))
        file(folder / f"python-docs-{language}/whatsnew/changelog.po", entry.format('"Nein nein"'))
    for name in ("en", *pairs.MATTERMOST.values()):
        texts = {"a.b": "Save changes", "only": "No other has it"} if name == "en" else {"a.b": "Sauver tout"}
        file(folder / f"mattermost-webapp/i18n/{name}.json", json.dumps(texts))
    for name in ("en-US", *pairs.GITEA.values()):
        text = "Sign in" if name == "en-US" else "Anmelden"
        file(folder / f"gitea/options/locale/locale_{name}.json", json.dumps({"home": {"sign": text}}))
    content = folder / "website/content"
    file(content / "zh-cn/a.md", "<!--\nA pod runs **containers**.\n-->\nPod 运行容器。\n")
    file(content / "en/b.md", "# Nodes\n\nA [node](x) is a machine.\n")
    file(content / "de/b.md", "# Knoten\n\nEin [Knoten](x) ist eine Maschine.\n")
    file(content / "fr/b.md", "# Nœuds\n")
    (content / "ja/folder.md").mkdir(parents=True)
    return folder


def test_translations_are_read_from_every_source(clones: Path, tmp_path: Path) -> None:
    """Without markup, texts without a translation, changelogs, and pages with other paragraphs."""
    pairs.main(clones, tmp_path)
    found = pairs.read_pairs(tmp_path)
    assert found == pairs.collect(clones)
    assert {one for one in found if one[0] in ("zh", "de")} == {
        ("zh", "tatoeba", "I am late.", "我迟到了。"),
        ("zh", "python", "Open a file", "打开一个文件"),
        ("zh", "kubernetes", "A pod runs containers.", "Pod 运行容器。"),
        ("de", "tatoeba", "I am late.", "Ich bin spät."),
        ("de", "mattermost", "Save changes", "Sauver tout"),
        ("de", "gitea", "Sign in", "Anmelden"),
        ("de", "kubernetes", "Nodes", "Knoten"),
        ("de", "kubernetes", "A node is a machine.", "Ein Knoten ist eine Maschine."),
    }
    assert ("ja", "python", "Open a file", "ファイルを開く") in found
    assert not [one for one in found if one[0] == "fr" and one[1] == "kubernetes"]


def test_the_vocabulary_grows_by_common_ideographs_only() -> None:
    rare, frequent = "\u9fa5", "\u9f98"
    texts = [("ja", "python", "x", frequent)] * prepare.SEEN + [("ja", "python", "x", rare)]
    base = ["[UNK]", "[CLS]", "[SEP]", "late", "的"]
    found = prepare.extended_vocabulary(base, texts)
    assert found[: len(base)] == base
    assert len(found) == len(set(found))
    assert {"我", "，", frequent} <= set(found)
    assert rare not in found


def test_pairs_are_limited_for_each_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(prepare.MAX_PAIRS, "de", 1)
    texts = [("de", "", "x" * 241, "y"), ("de", "", "a", "b"), ("de", "", "c", "d"), ("fr", "", "e", "f")]
    assert [one[2] for one in prepare.chosen_pairs(texts)] == ["a", "e"]


def test_a_person_becomes_numbers_that_keep_what_is_needed() -> None:
    person = next(one for one in own_people() if any(m.stale - m.needed for m in one.messages))
    found = prepare.person_tokens(person, WordPiece([*"[UNK] [CLS] [SEP]".split(), *"abcdefghij"]))
    assert len(found["memories"]) == len(person.memories)
    for message, read in zip(person.messages, found["messages"], strict=True):
        assert {person.memories[i].id for i in read["needed"]} == message.needed
        assert {person.memories[i].id for i in read["left_out"]} == (
            message.helpful | message.stale
        ) - message.needed
        assert len(read["segments"]) == len(encoded_segments(message.text))


def test_exported_weights_are_those_that_were_trained(tmp_path: Path) -> None:
    """Pieces that no text has are left out; vectors, need and the comparison stay the same."""
    made_up = tmp_path / "made_up"
    made_up.mkdir()
    tensors = plain.write(made_up)
    unused = np.ones((2, plain.SIZE), np.float32)
    trained = {_trained_name(name): one for name, one in tensors.items()}
    trained["words.weight"] = np.concatenate([unused[:1], trained["words.weight"], unused[1:]])
    work, folder = tmp_path / "work", tmp_path / "model"
    work.mkdir()
    export.write_tensors(work / export.NOTES_FILE, trained)
    file(work / "vocabulary.txt", "\n".join(["[unused0]", *plain.VOCABULARY, "##中"]) + "\n")
    export.export(work, folder)
    ours, theirs = MiniLm(folder), MiniLm(made_up)
    for text in ("a b c", "hgf j"):
        vector = ours.encode(text)
        assert vector @ theirs.encode(text) == pytest.approx(1, abs=1e-5)
        assert ours.need(vector) == pytest.approx(theirs.need(vector), abs=1e-4)
    assert len(_Tensors(folder / "model.safetensors")["words"]) == len(plain.VOCABULARY)
    assert "cosine at least 1.0000" in export.compare(folder, made_up, ["a b c", "hgf j"])


def _trained_name(name: str) -> str:
    if name in ("words", "places"):
        return f"{name}.weight"
    name = name.replace(".scale", ".weight").replace(".shift", ".bias")
    return f"layers.{name}" if name[0].isdigit() else name
