"""The public benchmark: tasks tell programs apart, the score is that of the labels, answers are judged."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.public import answers
from bench.public.__main__ import RESULTS, load, main, run
from bench.public.adapter import SHOWN, Adapter, Hit, SavedMemory, Turn
from bench.public.adapters import ADAPTERS
from bench.public.extraction import Chat, chats, score
from bench.public.tasks import DATA, TASKS
from nacre.devtools.sim import Simulator

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 11, 1, tzinfo=UTC)


class Believer(Adapter):
    """Keeps and shows everything, newest first, and warns of nothing."""

    name = "believer"

    def __init__(self, folder: Path, *, project: Path | None = None) -> None:
        super().__init__(folder, project=project)
        self.texts: list[str] = []

    def save(self, memory: SavedMemory) -> str:
        self.texts.append(memory.text)
        return str(len(self.texts) - 1)

    def search(self, message: str) -> list[Hit]:
        exact = [at for at, text in enumerate(self.texts) if text == message]
        return [
            Hit(str(at), self.texts[at]) for at in [*exact, *range(SHOWN)][:SHOWN] if at < len(self.texts)
        ]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        return True


class Doubter(Believer):
    """Refuses what a model writes, and warns of everything."""

    name = "doubter"

    def search(self, message: str) -> list[Hit]:
        return [Hit(one.id, one.text, has_warning=True) for one in super().search(message)]

    def write(self, statement: str, said: Sequence[Turn]) -> bool:
        return False


@pytest.mark.slow
def test_nacre_does_every_task() -> None:
    found = run(load("nacre"), list(TASKS), is_tiny=True)
    assert set(found) == set(TASKS)
    assert all(found.values())
    assert found["recall"]["in_vain"] == 0
    assert found["extraction"]["kept"] >= 6
    assert found["extraction"]["secrets"] == 0
    assert found["writers"]["false_kept"] == 0
    assert found["writers"]["true_kept"] == 1
    assert found["sessions"]["of_append_only"] < 1


@pytest.mark.slow
def test_a_program_of_someone_else_is_measured_and_tasks_that_it_cannot_do_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"{__name__}:Believer", f"{__name__}:Doubter", "--task", "writers", "--task", "extraction"]
    sys.modules.setdefault(__name__, sys.modules[Believer.__module__])
    assert main([*words, "--out", str(tmp_path)]) == 0
    results = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))["tasks"] for path in tmp_path.glob("*.json")
    }
    assert results["believer"]["extraction"] is None
    assert results["believer"]["writers"]["false_kept"] == 1
    assert results["doubter"]["writers"]["true_kept"] == 0
    assert results["doubter"]["writers"]["false"] > 1_000
    capsys.readouterr()


@pytest.mark.slow
def test_staleness_is_what_is_shown_as_true_although_it_is_gone() -> None:
    from bench.public import tasks

    believed = tasks.staleness(Believer)
    doubted = tasks.staleness(Doubter)
    assert believed is not None and doubted is not None
    assert believed["stale"] == doubted["stale"]
    assert int(str(believed["stale"])) > 10
    assert (believed["stale_shown_as_true"], believed["warned_in_vain"]) == (1, 0)
    assert (doubted["stale_shown_as_true"], doubted["warned_in_vain"]) == (0, 1)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("no.such.module:Program", "No module named 'no'"),
        ("menm0", "write package.module:Class or one of nacre, "),
        (":Program", "write package.module:Class or one of nacre, "),
        ("json:Program", "Program of json is not a subclass of Adapter that has a `name`"),
        ("bench.public.adapter:Hit", "Hit of bench.public.adapter is not a subclass of Adapter"),
        ("bench.public.adapter:Adapter", "is not a subclass of Adapter that has a `name`"),
    ],
)
def test_a_program_that_cannot_be_loaded_is_one_line_and_the_next_is_measured(
    program: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sys.modules.setdefault(__name__, sys.modules[Believer.__module__])
    assert main([program, f"{__name__}:Believer", "--task", "recall", "--tiny"]) == 1
    printed = capsys.readouterr()
    first, *others = printed.err.splitlines()
    assert first.startswith(f"{program}: left out, ") and why in first
    assert others == ["believer: recall"]
    assert json.loads(printed.out)[f"{__name__}:Believer"]["recall"]["messages"] == 8


def test_a_program_that_attaches_more_than_five_memories_is_refused() -> None:
    class Flood(Believer):
        def search(self, message: str) -> list[Hit]:
            return [Hit(str(at), text) for at, text in enumerate(self.texts)]

    with pytest.raises(ValueError, match=r"`search` of believer returned 4[0-9] memories; at most 5"):
        run(Flood, ["recall"], is_tiny=True)


def test_folders_that_cannot_be_used_are_said_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for option, folder in (("--recordings", "none"), ("--out", "file")):
        with pytest.raises(SystemExit) as stopped:
            main(["bm25", "--tiny", option, str(tmp_path / folder)])
        assert stopped.value.code == 2
        assert capsys.readouterr().err.splitlines()[-1].endswith(
            {"--recordings": f"there is no session log in {tmp_path / folder}",
             "--out": f"{tmp_path / folder} is a file; name a folder"}[option]
        )  # fmt: skip


def test_ctrl_c_is_one_line_and_writes_nothing(tmp_path: Path) -> None:
    program = tmp_path / "slow_program.py"
    program.write_text(
        "import time\nfrom bench.public.adapter import Adapter\n"
        "class Slow(Adapter):\n    name = 'slow'\n    def search(self, message): return []\n"
        "    def save(self, memory): print('saves', flush=True); time.sleep(60)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "bench.public", "slow_program:Slow", "--task", "recall"]
    command += ["--out", str(tmp_path / "out")]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "saves\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told.splitlines() == [
        "slow: recall",
        "slow_program:Slow: stopped, and no result of it was written",
    ]
    assert not (tmp_path / "out").exists()


def kept(*memories: tuple[str, str]) -> dict[str, Any]:
    """The score of these memories of one chat with two facts, one message of noise and a secret."""
    labels = {
        "messages": [
            {"role": "user", "text": "we deploy on tuesdays, with two approvals, never on fridays"},
            {"role": "user", "text": "the sky is grey today and the coffee machine hums"},
        ],
        "keep": [
            {"type": "project", "fact": "Deploys on Tuesdays.", "from": [0],
             "must_contain": ["tuesday", "deploy"], "must_not_contain": ["monday"],
             "replaces": "deploys on mondays"},
            {"type": "feedback", "fact": "Two approvals.", "from": [0], "must_contain": ["two approvals"]},
            {"type": "project", "fact": "Never on Fridays.", "from": [0], "must_contain": ["fridays"]},
        ],
        "noise": [{"from": [1], "why": "small talk"}],
    }  # fmt: skip
    chat = Chat("c01", (), labels)
    return dict(score([(chat, list(memories))], DATA / "extraction"))


def test_the_score_counts_facts_types_noise_and_values_that_were_replaced() -> None:
    assert kept()["kept"] == 0
    assert kept()["facts"] == 3
    good = kept(("project", "Deploys are on Tuesdays."), ("project", "It needs two approvals."))
    assert (good["kept"], good["right_type"], good["noise"], good["saved"]) == (2, 1, 0, 2)
    whole = ("project", "we deploy on tuesdays, with two approvals, never on fridays")
    assert kept(whole)["kept"] == 2, "one memory counts for two facts at most"
    late = ("project", "x " * 200 + "Deploys are on Tuesdays.")
    assert kept(late)["kept"] == 0, "only the first 400 characters count"
    old = kept(("project", "deploys on mondays"))
    assert (old["kept"], old["old_values"]) == (0, 1)
    assert kept(("user", "the sky is grey today and the coffee machine hums"))["noise"] == 1
    value = next(
        iter(json.loads((DATA / "extraction" / "secret_values.json").read_text(encoding="utf-8")).items())
    )
    chat = next(one for one in chats(DATA / "extraction") if one.id == value[0])
    assert score([(chat, [("user", f"the password is {value[1][0]}")])], DATA / "extraction")["secrets"] == 1


def test_every_committed_result_is_of_an_adapter_and_says_how_it_was_run() -> None:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    assert {"nacre", "mem0", "langmem", "agent-framework", "basic-memory"} <= {
        one["program"] for one in found
    }
    for one in found:
        assert one["program"] in ADAPTERS
        assert one["how"] == load(one["program"]).how
        assert set(one["tasks"]) == set(TASKS)
        assert all("date" in task for task in one["tasks"].values() if task)


LONGMEMEVAL = [
    {
        "question_id": "q1", "question_type": "single-session-user",
        "question": "Which server do we build on?",
        "answer": "heron", "question_date": "2026/05/30 (Sat) 23:40", "haystack_session_ids": ["s1"],
        "haystack_dates": ["2026/05/01 (Fri) 10:00"],
        "haystack_sessions": [[{"role": "user", "content": "Our build server is heron, in the basement."}]],
    }
]  # fmt: skip
LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana", "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ana", "dia_id": "D1:1", "text": "My cat Mirko is seven years old."}],
        },
        "qa": [
            {"question": "How old is Ana's cat Mirko?", "answer": 7, "evidence": ["D1:1"], "category": 4},
            {"question": "What does Ana's dog eat?", "evidence": [], "category": 5},
        ],
    }
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words", "why"),
    [
        (None, [], "data.json: No such file or directory"),
        ("{}", [], "data.json has no questions of LongMemEval or LoCoMo"),
        ("[{}]", [], "data.json has no questions of LongMemEval or LoCoMo"),
        ('["text"]', [], "data.json has no questions of LongMemEval or LoCoMo"),
        ("[", [], "data.json has no questions of LongMemEval or LoCoMo"),
        ("[]", ["--adapter", "menm0"], "--adapter menm0: write package.module:Class or one of nacre, "),
    ],
)
def test_a_file_without_questions_and_an_unknown_program_are_one_line_before_a_model_is_asked(
    content: str | None, words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "data.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        answers.main([str(file), "--model", "anthropic:claude-haiku-5-5", "--out", str(tmp_path), *words])
    assert stopped.value.code == 2
    assert why in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == (["data.json"] if content is not None else [])


def test_questions_of_both_public_sets_are_read(tmp_path: Path) -> None:
    for data in (LONGMEMEVAL, LOCOMO):
        (tmp_path / "data.json").write_text(json.dumps(data), encoding="utf-8")
        found = list(answers.items(tmp_path / "data.json"))
        assert all(one.turns for one in found)
    assert [(one.kind, one.answer) for one in found] == [
        ("single-hop", "7"),
        ("adversarial", answers.UNKNOWN),
    ]
    assert found[0].turns is found[1].turns
    assert found[0].asked == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@pytest.mark.slow
async def test_answers_are_given_from_what_is_attached_and_judged(tmp_path: Path) -> None:
    (tmp_path / "both.json").write_text(json.dumps(LONGMEMEVAL + LOCOMO), encoding="utf-8")
    replies = ["It is heron.", "Yes.", "Seven years.", "yes", "Fish.", "No."]
    async with Simulator(replies) as sim:
        environ = {**os.environ, "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": sim.url}
        command = [sys.executable, "-m", "bench.public.answers", str(tmp_path / "both.json")]
        command += ["--model", "anthropic:claude-haiku-5-5", "--out", str(tmp_path)]
        ran = await asyncio.to_thread(
            subprocess.run, command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == 0, ran.stderr
        asked = [str(one.body) for one in sim.log]
    assert "2 of 3 right" in ran.stdout
    assert "Our build server is heron" in asked[0] and "It is 2026-05-30" in asked[0]
    assert "Expected: heron" in asked[1] and "Answer: It is heron." in asked[1]
    told = json.loads((tmp_path / "answers.nacre.both.json").read_text(encoding="utf-8"))
    assert told["by_kind"] == {
        "adversarial": "0 of 1", "single-hop": "1 of 1", "single-session-user": "1 of 1",
    }  # fmt: skip
    assert told["cost_usd"] > 0
