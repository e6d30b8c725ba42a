"""What a memory's text names of a project, and what only looks so (R12, M20)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.memory.recall.drift.references import MAX_CHARS, MAX_REFERENCES, line_of, parts_of, references_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The ladder is in `src/app/fit.py`.", ["path src/app/fit.py"]),
        ("See src/app/fit.py for the ladder.", ["path src/app/fit.py"]),
        ("It broke at fit.py:120, again.", ["path fit.py:120"]),
        ("It broke at `src/fit.py:12-40`.", ["path src/fit.py:12"]),
        ("Look at src/fit.py#L7.", ["path src/fit.py:7"]),
        ("All parsers are in `src/parsers/`.", ["path src/parsers/"]),
        ("The `Dockerfile` copies `.devcontainer/run.sh`.", ["path Dockerfile", "path .devcontainer/run.sh"]),
        ("`./tools/deploy.sh` does it", ["path tools/deploy.sh"]),
        ("Never run `tests/test_a.py::test_one` alone.", ["path tests/test_a.py", "symbol test_one"]),
        ("Call open_store() first.", ["symbol open_store"]),
        ("Call `open_store(path, mode)` first.", ["symbol open_store"]),
        ("`Agent.run()` is the way in", ["symbol Agent.run"]),
        ("`FileStore.append_all` is atomic", ["symbol FileStore.append_all"]),
        ("FileStore.append is atomic", ["symbol FileStore.append"]),
        ("`store::open_all` in Rust", ["symbol store::open_all"]),
        ("`MAX_PICKS` is five, `maxPicks` too", ["symbol MAX_PICKS", "symbol maxPicks"]),
        ("Never pass --skip-checks here.", ["flag --skip-checks"]),
        ("`--window-size=800` is needed", ["flag --window-size"]),
        ("Set APP_HOME before you start.", ["variable APP_HOME"]),
        ("The environment variable `APP_HOME` wins.", ["variable APP_HOME"]),
        ("`APP_HOME=/tmp/x` wins.", ["variable APP_HOME"]),
        ("Run `make test`, then `npm run pack:img`.", ["command make test", "command npm run pack:img"]),
        ("`CI=1 make lint && npm test`", ["command make lint", "command npm test"]),
        ("```bash\n$ make docs  # slow\n```", ["command make docs"]),
        ("`app sync --push-all`", ["command app sync --push-all"]),
        ("`uv run python -m app.serve`", ["command uv run python -m app.serve"]),
    ],
)
def test_a_name_is_found_as_what_it_is(text: str, expected: list[str]) -> None:
    assert [f"{kind} {name}" for kind, name in references_in(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "Deploys happen on Monday, after the stand-up; read/write and/or TCP/IP are fine.",
        "See https://example.org/src/app/fit.py and www.example.org/a.html for more.",
        "Ask dev.team@example.org, or alice@host.example.com.",
        "Since 2026-06-05 we use v2.0.1, before it was 1.2.3/4; 2026/06/05 was the day.",
        "All of `src/**/*.ts`, `tests/*.py` and `parsers/{a,b}` are linted.",
        "Write `path/to/file.py` or `src/<name>.py`, `docs/$NAME.md`, `your-project/x.py`.",
        "It is at `/etc/hosts`, /usr/lib/x.py and `~/.config/app.toml`.",
        "We use Node.js, Vue.js and `three.js`; GitHub and `TypeScript` as well.",
        "The type is `text/plain` or `application/json`.",
        "Values: `true`, `none`, `prepare`, `x`, `Docker`, `interior === 0`, `const EMPTY = 0`.",
        "See [[deploy-day]] and [the plan](plans/plan_one.md).",
        "`git commit --no-edit` and `docker compose up` are other people's commands.",
        "```python\nfrom app import made_up_name\nmade_up_name()\n```",
        "file(s), word(s) and f() are no calls; `print()` is everybody's.",
        "`src/old.py` was removed, `old_name()` is gone; `new_name()` does not exist.",
        "`旧文件.py`和`old_name()`已删除；`old_two()`不再使用。",
        "例如：部署在周一，1.5版之后，二〇二六年。",
        "I will call U.S. support. E.g. Monday.Then it works, e.g. a.b or Example.com.",
    ],
)
def test_prose_and_other_peoples_things_are_no_references(text: str) -> None:
    """Precision first: what is taken for a name would be reported as gone."""
    assert references_in(text) == ()


def test_chinese_may_stand_right_beside_a_name() -> None:
    text = (
        "用`open_store`打开，见src/app/fit.py第10行，调用save_all()函数，运行`make test`，设置APP_HOME变量。"
    )
    assert references_in(text) == (
        ("symbol", "open_store"),
        ("path", "src/app/fit.py"),
        ("symbol", "save_all"),
        ("command", "make test"),
        ("variable", "APP_HOME"),
    )


def test_a_flag_is_found_wherever_it_stands_alone() -> None:
    assert references_in("Never use --no-verify; `--no-verify` hides errors.") == (("flag", "--no-verify"),)


def test_what_a_sentence_calls_gone_does_not_silence_the_next() -> None:
    text = "`old_name()` was renamed. `new_name()` takes its place.\n`src/a.py` holds it."
    assert references_in(text) == (("symbol", "new_name"), ("path", "src/a.py"))


def test_an_absolute_path_counts_below_the_root_only(tmp_path: Path) -> None:
    text = f"It is in {tmp_path}/src/a.py, not in {tmp_path}-other/src/b.py."
    assert references_in(text, tmp_path) == (("path", "src/a.py"),)
    assert references_in(text) == ()


def test_each_reference_comes_once_in_the_order_of_the_text() -> None:
    text = "First `second_one`, then `src/a.py`, `second_one` again, `make all`, and `src/a.py`."
    assert references_in(text) == (("symbol", "second_one"), ("path", "src/a.py"), ("command", "make all"))


def test_a_listing_without_end_is_cut() -> None:
    assert len(references_in(" ".join(f"`name_{number}`" for number in range(1_000)))) == MAX_REFERENCES
    assert references_in("`" + "a_" * MAX_CHARS + "`") == ()


def test_lines_and_parts_are_taken_apart() -> None:
    assert line_of("src/a.py:12") == ("src/a.py", 12)
    assert line_of("src/a.py") == ("src/a.py", 0)
    assert (
        parts_of("Store.append")
        == parts_of("Store::append")
        == parts_of("Store#append")
        == ("Store", "append")
    )


SIGNS = "` `` ```\n src/ a.py :12 -- -x \n 文 。 ( ) [[ A_B make < *".split(" ")
PIECES = st.lists(st.sampled_from([*SIGNS, " "]) | st.text(max_size=5), max_size=60)


@given(PIECES)
def test_any_text_gives_short_single_lines_without_a_way_out(pieces: list[str]) -> None:
    for kind, text in references_in("".join(pieces)):
        assert kind in {"path", "symbol", "flag", "variable", "command"}
        assert text == " ".join(text.split()) and 0 < len(text) <= MAX_CHARS
        assert kind != "path" or not text.startswith(("/", "~"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "a/" * 100_000,
        "`a " * 60_000,
        "--a-" * 50_000,
        "[[" * 90_000,
        "](" * 50_000,
        "```a\n" * 20_000,
        "A_" * 50_000,
        "a." * 50_000,
        "a@" * 50_000,
    ],
)
def test_no_text_takes_more_than_one_pass(text: str) -> None:
    """Would run for minutes if a pattern looked back over and over."""
    assert len(references_in(text)) <= MAX_REFERENCES
