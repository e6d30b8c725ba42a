"""Prompt files reach the model byte for byte, and a change to one is always visible."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre import prompts
from tests.prompts import lock

plain = st.text().filter(lambda text: "{{" not in text and "}}" not in text)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An importable package with an empty prompts folder; yields (name, folder)."""
    folder = tmp_path / "some_room" / "prompts"
    folder.mkdir(parents=True)
    (tmp_path / "some_room" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "some_room", folder
    sys.modules.pop("some_room", None)


def test_the_lock_file_names_every_prompt_as_it_stands():
    """House rule on prompts: an edit is always a two-file diff."""
    assert lock.LOCK.read_text(encoding="utf-8") == lock.current(), (
        "a prompt changed: run `python tests/prompts/lock.py` and write a line under Prompts in the changelog"
    )


def test_the_lock_file_notices_a_changed_letter(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "PACKAGE", tmp_path)
    prompt = tmp_path / "room" / "prompts" / "a.md"
    prompt.parent.mkdir(parents=True)
    prompt.write_bytes(b"one\n")
    before = lock.current()
    prompt.write_bytes(b"onE\n")
    assert before.startswith("room/prompts/a.md ")
    assert before.endswith(" 4\n")
    assert lock.current() != before


@pytest.mark.parametrize(
    ("on_disk", "read"),
    [
        (b"words\n", "words"),
        (b"words", "words"),
        (b"words\n\n", "words\n"),
        (b"  a\r\n\tb \r\n", "  a\r\n\tb \r"),
        ("珍珠\n".encode(), "珍珠"),
        (b"", ""),
    ],
)
def test_a_prompt_loses_exactly_one_final_newline_and_nothing_else(package, on_disk: bytes, read: str):
    name, folder = package
    Path(folder / "x.md").write_bytes(on_disk)
    assert prompts.load(name, "x") == read


def test_a_missing_prompt_fails_when_it_is_loaded(package):
    name, _ = package
    with pytest.raises(FileNotFoundError):
        prompts.load(name, "absent")


@given(plain, plain, st.text(), st.text())
def test_what_is_inserted_is_never_scanned_again(before: str, between: str, first: str, second: str):
    template = before + "{{ a }}" + between + "{{ b }}" + "{{ a }}"
    assert prompts.render(template, a=first, b=second) == before + first + between + second + first


def test_inserted_braces_and_backslashes_stay_as_they_are():
    assert (
        prompts.render("<{{ a }}{{ b }}>", a="{{ b }}", b=r"\1 \g<0> {{ a }}") == r"<{{ b }}\1 \g<0> {{ a }}>"
    )


@given(st.text())
def test_a_template_without_slots_comes_back_unchanged(template: str):
    if not prompts.SLOT.search(template):
        assert prompts.render(template) == template


def test_a_slot_without_text_is_refused_by_name():
    with pytest.raises(ValueError, match="no text given for the prompt's slots: b, c"):
        prompts.render("{{ c }} {{ a }} {{ b }}", a="x")


def test_text_without_a_slot_is_refused_by_name():
    with pytest.raises(ValueError, match="the prompt has no such slots: b"):
        prompts.render("{{ a }}", a="x", b="y")


@pytest.mark.parametrize("template", ["{{a}}", "{{  a }}", "{ a }", "${a}", '{"a": {"b": 1}}', "{{ 1 }}"])
def test_only_the_exact_form_is_a_slot(template: str):
    assert prompts.render(template) == template
