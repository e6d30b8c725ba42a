"""A password that a tool shows is not saved, whatever the model makes of it (M16)."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from bench.poisoning import settings_in
from nacre.app.open_agent import open_agent
from nacre.errors import StoreError
from nacre.memory.files.folder import ABSENT
from nacre.memory.memory import BY_PROGRAM, Memory
from nacre.messages.events import ToolResultEvent
from nacre.testing import ScriptedProvider, call, say

VALUE = "quiet" + "heron" + "dusk"
SPELLINGS = {
    "as it is": VALUE,
    "upper case": VALUE.upper(),
    "reversed": VALUE[::-1],
    "spaced": " ".join(VALUE),
    "in pieces": "-".join((VALUE[:5], VALUE[5:10], VALUE[10:])),
    "base64": base64.b64encode(VALUE.encode()).decode(),
    "hex": VALUE.encode().hex(),
}


SHOWN = f"DB_HOST=db.internal\nDB_PASSWORD={VALUE}\n"


async def saved_after_reading(tmp_path: Path, text: str, shown: str = SHOWN) -> tuple[str, list[str]]:
    """Return the answer to `remember`, and the files under the home that hold the value."""
    settings = settings_in(tmp_path)
    project = settings.cwd
    (project / "app.env").write_text(shown)
    home = settings.home
    answer = ""
    provider = ScriptedProvider(
        [call("Read", file_path=str(project / "app.env")), call("remember", text=text), say("Done.")]
    )
    async with open_agent(settings, provider=provider) as ready:
        async for event in ready.agent.stream("Look at the settings, please."):
            if isinstance(event, ToolResultEvent):
                answer = str(event.result.content)
    needles = [one.encode() for one in (VALUE, text, VALUE[::-1])]
    files = [
        path.relative_to(home).as_posix()
        for path in home.rglob("*")
        if path.is_file() and any(one in path.read_bytes() for one in needles)
    ]
    return answer, files


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_value_that_a_tool_result_assigns_is_refused_in_any_spelling(
    tmp_path: Path, spelling: str
) -> None:
    """M16: and it is in no file but the log of the conversation that showed it."""
    answer, files = await saved_after_reading(tmp_path, f"Staging opens with {SPELLINGS[spelling]} for now.")
    assert "secrets do not belong into memory" in answer
    assert "save where it is kept instead" in answer
    assert files and all(file.startswith("projects/") and file.endswith(".jsonl") for file in files), files


SENTENCES = [
    "The admin password is {}, as of today.",
    "Das Passwort für die Anlage lautet {}.",
    "Le mot de passe du serveur est {}.",
    "La contraseña del panel es {}",
    "管理后台的密码是{}。",
    "管理画面のパスワードは{}です。",
]


@pytest.mark.parametrize("sentence", SENTENCES)
async def test_a_value_that_a_sentence_of_a_result_names_is_refused(tmp_path: Path, sentence: str) -> None:
    value = f"{VALUE}7"
    answer, _ = await saved_after_reading(tmp_path, f"Staging opens with {value}.", sentence.format(value))
    assert "secrets do not belong into memory" in answer


async def test_other_values_of_the_same_result_are_saved(tmp_path: Path) -> None:
    """M16: only what a secret-named variable holds counts."""
    answer, _ = await saved_after_reading(tmp_path, "The staging database is on db.internal.")
    assert "Saved to" in answer


async def test_a_secret_that_is_saved_on_purpose_is_not_in_the_title_or_the_index(tmp_path: Path) -> None:
    """M16: the index is part of every prompt."""
    memory = Memory(tmp_path / "memory")
    saved = await memory.save(f"The staging password is {VALUE}99.", allow_secret=True)
    assert VALUE in saved.entry.body
    assert VALUE not in saved.entry.file + saved.entry.title + saved.entry.description
    assert VALUE not in (await memory.index()).text


async def test_a_file_name_with_a_credential_is_refused_by_every_write(tmp_path: Path) -> None:
    """M16: put, put_all and the Write tool check the name of a new file, not only of a saved memory."""
    name = f"db-password-{VALUE}99.md"
    memory = Memory(tmp_path / "memory")
    with pytest.raises(StoreError, match="password in the file name"):
        await memory.put(name, b"A plain note.\n", BY_PROGRAM)
    with pytest.raises(StoreError, match="password in the file name"):
        await memory.put_all({name: (b"A plain note.\n", ABSENT)}, BY_PROGRAM)
    await memory.put("password-reset-v2.md", b"It works by e-mail.\n", BY_PROGRAM)
    await memory.put(name, b"A plain note.\n", BY_PROGRAM, allow_secret=True)
    await memory.put(name, b"Another note.\n", BY_PROGRAM)  # its name is known already
    settings = settings_in(tmp_path)
    answers = []
    async with open_agent(settings, provider=(script := ScriptedProvider())) as ready:
        path = ready.memories[0].location.directory / name
        script.script(call("Write", file_path=str(path), content="A plain note.\n"), say("Done."))
        async for event in ready.agent.stream("Note it."):
            if isinstance(event, ToolResultEvent):
                answers.append(str(event.result.content))
    assert "password in the file name" in answers[0]
    assert not path.exists()
