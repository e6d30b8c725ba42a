"""Docs cannot drift: what pages say of paths, rooms, imports, commands, settings is held against the code."""

from __future__ import annotations

import ast
import inspect
import io
import json
import re
import runpy
import shlex
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from nacre import errors
from nacre.cli.main import nacre
from nacre.devtools.cache_models import anthropic_state, openai_rules
from nacre.devtools.sim import replies as script
from nacre.devtools.sim.faults import FAULT_KINDS
from nacre.mcp_client import McpLimits
from nacre.messages.blocks import JsonObject
from nacre.tools.base import Tool
from nacre.tools.policy import SUBCOMMANDS, Mode, PermissionPolicy
from nacre.tools.rules import parse_rule
from nacre.tools.workspace import Workspace
from nacre.version import VERSION
from tests.architecture.pages import fences
from tests.architecture.processes import run_python

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nacre"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCES = {"python", "python no-run", "console", "text", "typescript"}
WHY = {"microcompact": "microcompaction", "compact": "compaction", "extract": "extraction"}
"""Layers whose page has the noun where the room has the verb."""
PLAYED = [
    page for page in PAGES if any(kind == "python" for kind, _, _ in fences(page.read_text(encoding="utf-8")))
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its two head rows."""
    section = re.split(rf"^## {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
    table = re.search(r"(^\|.*\n)+", section, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[0].splitlines()[2:]]


@pytest.mark.slow
@pytest.mark.parametrize("page", PLAYED, ids=name_of)
def test_the_python_on_a_page_runs(page: Path, tmp_path: Path) -> None:
    modules = ROOT if page.stem == "public-benchmark" else None  # the benchmark is not part of the package
    done = run_python([str(Path(__file__).with_name("pages.py")), str(page)], tmp_path, modules=modules)
    assert done.returncode == 0, done.stderr


def test_a_page_that_is_wrong_fails_at_its_own_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Words.\n\n```python\nimport asyncio\nawait asyncio.sleep(0)\nassert False\n```\n")
    done = run_python([str(Path(__file__).with_name("pages.py")), str(page)], tmp_path)
    assert done.returncode == 1
    assert 'page.md", line 6' in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    kinds = {kind for kind, _, _ in fences(text)}
    assert kinds <= FENCES
    assert "python no-run" not in kinds or "marked `no-run` because" in text


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    inside = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in inside if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """The names by which a page's headings can be linked to, as sites that show Markdown make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_to_a_heading_finds_it(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    lost = [
        f"{target}#{name}"
        for target, name in links
        if name not in anchors(page.parent / target if target else page)
    ]
    assert lost == []


RULE = re.compile(r"(?<![\w./#])(?<!\D-)[ACDEFGMPQRST][1-9]\d?[a-z]?(?!\w|\.\d|-(?![A-Z]\d))")
"""The id of a rule. Paths, versions, model names and longer identifiers do not match."""


def documented(path: Path) -> Iterator[str]:
    """The text in which a file cites rules: of a page all of it, of a program docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield text
        return
    if not RULE.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str() as docstring)):
                yield docstring
    if re.search(f"#.*{RULE.pattern}", text):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        yield from (token.string for token in tokens if token.type == tokenize.COMMENT)


def citations(paths: list[Path]) -> dict[str, str]:
    """Every cited rule id with one file that cites it."""
    return {rule: name_of(path) for path in paths for text in documented(path) for rule in RULE.findall(text)}


def defined_rules() -> list[str]:
    pages = sorted((ROOT / "docs" / "spec").glob("*.md"))
    return [
        rule
        for page in pages
        for rule in re.findall(rf"^### ({RULE.pattern})$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("as C31c says (M16b, T9); R7-R10.", ["C31c", "M16b", "T9", "R7", "R10"]),
        ("P1: the port", ["P1"]),
        ("all-MiniLM-L6-v2, T09, E10.5, src/C1, #D3, A4-size, iso-A4, 0xC4, C123, C4AB, UTF-8", []),
    ],
)
def test_a_rule_id_is_told_from_other_names(text: str, found: list[str]) -> None:
    assert RULE.findall(text) == found


@pytest.mark.slow
def test_every_rule_that_is_cited_is_defined_once_and_every_rule_is_cited_or_listed_as_not_built() -> None:
    folders = [ROOT / name for name in ("src", "tests", "bench", "examples")]
    code = citations(sorted(path for folder in folders for path in folder.rglob("*.py")))
    prompts = [path for folder in folders for path in folder.rglob("*.md")]
    cited = citations([ROOT / "llms.txt", *PAGES, *prompts]) | code
    rules = defined_rules()
    assert len(rules) == len(set(rules))
    assert {rule: path for rule, path in cited.items() if rule not in rules} == {}
    unbuilt = {rule for row in rows(read("docs/spec/index.md"), "Not built") for rule in RULE.findall(row[0])}
    assert sorted(set(rules) - set(code) - unbuilt) == []


def test_the_reading_order_for_a_model_leads_somewhere_and_misses_no_layer() -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", read("llms.txt"))
    assert [link for link in links if not (ROOT / link).is_file()] == []
    assert len(set(links)) == len(links)
    whys = {
        f"docs/why/{WHY.get(path.name[3:], path.name[3:])}.md" for path in (PACKAGE / "layers").glob("l?_*")
    }
    assert len(whys) == 7
    assert whys <= set(links)


def test_every_test_and_benchmark_that_a_page_names_exists() -> None:
    named = {
        path
        for page in PAGES
        for path in re.findall(r"`((?:tests|bench)/[\w./-]+)`", page.read_text(encoding="utf-8"))
    }
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def commands(text: str) -> list[str]:
    """Every line that a page has people type, and every command it names in passing."""
    lines = [line for kind, _, body in fences(text) if kind != "python" for line in body.splitlines()]
    typed = re.compile(r"(?:\$ )?(?:\w+=\S+ )*(?:\.venv/bin/)?(nacre(?: \S.*)?)")
    found = [match[1].partition(" #")[0] for line in lines if (match := typed.fullmatch(line))]
    return found + re.findall(r"`(?:\w+=\S+ )*(nacre(?: [^`]*)?)`", text)


def misspelt(line: str) -> list[str]:
    """What a command line names that the program does not know: a command, or an option of it."""
    command: click.Command = nacre
    words, known = shlex.split(line)[1:], {"-h", "--help"}
    known |= {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words[0])
        if inner is None:
            return words[:1]
        command, words = inner, words[1:]
        known |= {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return [option for option in options if option not in known]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_a_page_names_can_be_typed(page: Path) -> None:
    assert {
        line: misspelt(line) for line in commands(page.read_text(encoding="utf-8")) if misspelt(line)
    } == {}


def test_every_page_can_be_found_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", read("docs/index.md"))}
    assert [
        name_of(page) for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in {index, *linked}
    ] == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"])
def test_every_path_that_is_named_exists(name: str) -> None:
    words = re.findall(r"`([^`\s]+)`", read(name))
    tree = re.findall(r"^([\w./]+/)\s{2,}", read(name), re.MULTILINE)
    ours = re.compile(
        r"(src|tests|docs|examples|bench)(/|$)|\w+(/\w+)*\.(py|lock|toml)$|\w+(/\w+)+\.json$|\w+(/\w+)*/$"
    )
    kept = {"cache/", "locks/", "prompts/", "run/", "settings/", "skills/", "teams/", "worktrees/"}
    home = kept if name == "README.md" else {"prompts/"}
    named = {word for word in [*words, *tree] if ours.match(word)} - home
    assert named
    assert sorted(word for word in named if not ((ROOT / word).exists() or (PACKAGE / word).exists())) == []


def test_every_package_is_in_the_tree() -> None:
    tree = read("ARCHITECTURE.md").partition("```text")[2].partition("```")[0]
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(name for name in packages if f"\n  {name}/ " not in tree) == []


def test_the_picture_of_the_rooms_has_every_room_and_every_layer() -> None:
    drawn = set(re.findall(r"\w+", " ".join(re.findall(r">([^<]+)</text>", read("docs/img/layers.svg")))))
    contract = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = {room for layer in contract for room in layer.split(" | ")} - {"__main__"}
    layers = {path.name.partition("_")[2] for path in (PACKAGE / "layers").glob("l?_*")}
    assert sorted((rooms | layers) - drawn) == []


def test_the_table_of_imports_is_the_contract() -> None:
    contract = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]["layers"]
    drawn = [re.findall(r"`(\w+)`", row[1]) for row in rows(read("ARCHITECTURE.md"), "Import order")]
    assert drawn == [layer.split(" | ") for layer in contract]


def test_the_readme_gives_the_figures_that_were_measured() -> None:
    page, told = read("docs/why/measured.md"), " ".join(read("README.md").split())
    cost = {
        row[0]: row[1].replace(" / ", " and ")
        for row in rows(page, "Replay: what a session costs, and what stays in view")
    }
    kept = {row[0]: row for row in rows(page, "Compaction: what survives, and what is invented")}
    rules = {name: re.findall(r"(\d+)%", row[1])[0] for name, row in kept.items()}
    found = next(
        row for row in rows(page, "Recall: the right memories, without a model") if "locomo_turns" in row[0]
    )
    others = ("LangChain, summarization", "pydantic-ai-harness, tiered")
    for figures in (
        f"**{cost['nacre-chat'].split()[0]}** of the input cost",
        f"**{cost['nacre-tools'].split()[0]}** with the results",
        f"{cost['nacre-chat'].split()[-1]} of 100 pairs",
        f"{cost[others[0]]}; its clearing of tool uses: {cost['LangChain, clear tool uses']},",
        f"**{rules['nacre, by rule']} %** of a person's rules",
        f"bad summary {rules[others[0]]} %, with pydantic-ai-harness {rules[others[1]]} %",
        f"none, {kept[others[0]][3]}, {kept[others[1]][3]}.",
        f"**{found[1]}**; BM25 {found[5]}, MiniLM embeddings {found[7]}, mem0 {found[9]}.",
    ):
        assert figures in told


def test_the_comparison_gives_the_figures_that_were_measured() -> None:
    page = read("docs/why/measured.md")
    cost = {
        row[0]: row[1].split(" / ")
        for row in rows(page, "Replay: what a session costs, and what stays in view")
        if "/" in row[1]
    }
    kept = {row[0]: row[1] for row in rows(page, "Compaction: what survives, and what is invented")}
    rules = {name: re.findall(r"(\d+%)", told)[0] for name, told in kept.items()}
    found = {row[0].split("`")[1]: row for row in rows(page, "Recall: the right memories, without a model")}
    turns, sessions = (
        [f"{float(share):.0%}" for share in (row[1], row[5], row[7], row[9])]
        for row in (found["locomo_turns"], found["locomo_sessions"])
    )
    daily = {
        name: cells.split(" | ")
        for name, cells in re.findall(r"^\| `(\w+)` \| (\d+% \|.*) \|$", page, re.MULTILINE)
    }
    ours, mem0, bm25, framework = (daily[name] for name in ("nacre", "mem0", "bm25s", "agent_framework"))
    chat, langchain, window = (
        cost[name] for name in ("nacre-chat", "LangChain, summarization", "agent-framework, context window")
    )
    saves = re.findall(
        r"nacre [\d.]+ ([\d.]+), mem0ai [\d.]+ ([\d.]+), agent-framework-core [\d.]+ (\d+)",
        " ".join(page.split()),
    )
    shown = [row[1:3] for row in rows(read("docs/why/comparison.md"), "Measured")]
    assert shown == [
        [turns[0], f"mem0 {turns[3]}, MiniLM {turns[2]}, BM25 {turns[1]}"],
        [sessions[0], f"BM25 {sessions[1]}, mem0 {sessions[3]}"],
        *(
            [ours[at], f"mem0 {mem0[at]}, BM25 {bm25[at]}, Agent Framework {framework[at]}"]
            for at in (0, 2, 3)
        ),
        [chat[0], f"LangChain, summarization {langchain[0]}; Agent Framework {window[0]}"],
        [f"{chat[1]}%", f"LangChain, summarization {langchain[1]}%; Agent Framework {window[1]}%"],
        [
            rules["nacre, by rule"],
            f"LangChain, summarization {rules['LangChain, summarization']}; "
            f"Agent Framework {rules['agent-framework, context window']}",
        ],
        [f"{saves[0][0]} ms", f"mem0 {saves[0][1]} ms; Agent Framework {saves[0][2]} ms"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["api", "cli", "leaderboard", "measured", "python", "server_load", "settings", "typescript"]
)
def test_a_page_made_from_the_code_is_up_to_date(page: str) -> None:
    made = runpy.run_path(str(ROOT / "docs" / f"make_{page}.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["text"](), "run `make docs`"


@pytest.mark.parametrize("name", ["forks", "notes"])
def test_the_dollars_on_a_page_about_a_layer_were_measured(name: str) -> None:
    runs = json.loads(read(f"bench/results/{name}.json"))["runs"]
    paid = [run.get("notes_usd", 0) + run.get("summaries_usd", 0) for run in runs]
    known = [float(value) for run in runs for key, value in run.items() if key.endswith("_usd")] + paid
    told = re.findall(r"\$(\d+\.(\d+))", read(f"docs/why/{name}.md"))
    assert told
    assert [text for text, digits in told if text not in {f"{one:.{len(digits)}f}" for one in known}] == []


def test_what_work_beside_a_conversation_is_said_to_add_to_the_bill_was_measured() -> None:
    shares: dict[str, list[float]] = {}
    for run in json.loads(read("bench/results/notes.json"))["runs"]:
        paid = run["notes_usd"] + run["extraction_usd"]
        shares.setdefault(run["way"], []).append(paid / run["conversation_usd"])
    usual = f"add {max(round(share * 100) for share in shares['default'])} % to the bill"
    for page in ("README.md", "docs/how-to/see-what-it-costs.md"):
        assert usual in " ".join(read(page).split())
    at_once = sorted(round(share * 100) for share in shares["at once"])
    text = " ".join(read("docs/how-to/see-what-it-costs.md").split())
    assert f"costs {at_once[0]} to {at_once[-1]} % of the conversation" in text


def imported(text: str) -> set[tuple[str, str]]:
    """The modules and names of nacre's that a program imports."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return {
        (str(node.module), one.name)
        for node in found
        for one in node.names
        if str(node.module).partition(".")[0] == "nacre"
    }


def test_the_python_page_has_every_public_name_and_all_that_people_are_told_to_import() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_python.py"))
    promised = {
        (module, name)
        for module in ("nacre", "nacre.testing", "nacre.providers", "nacre.devtools.sim")
        for name in made["public"](module)
    }
    told = [read("README.md"), *(page.read_text("utf-8") for page in (ROOT / "docs" / "how-to").glob("*.md"))]
    programs = [body for text in told for kind, _, body in fences(text) if kind == "python"]
    programs += [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    named = {name for _, name in made["listed"]()} | {
        name for name, _ in inspect.getmembers(errors, inspect.isclass)
    }
    wanted = promised | {one for text in programs for one in imported(text)}
    assert sorted(one for one in wanted if one[1] not in named) == []


def test_every_error_is_explained_with_its_exit_code() -> None:
    known = [
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__
    ]
    expected = {(kind.__name__, kind.__base__.__name__, str(kind.exit_code)) for kind in known}
    listed = rows(read("docs/reference/errors.md"), "Errors")
    assert {(row[0].strip("`"), row[1].strip("`"), row[3]) for row in listed} == expected


def test_the_simulator_page_knows_every_fault_script_field_and_switch() -> None:
    page = read("docs/reference/simulator.md")
    assert [row[0].strip("`") for row in rows(page, "Faults")] == list(FAULT_KINDS)
    assert sorted(re.findall(r"`(\w+)`", " ".join(row[0] for row in rows(page, "Script")))) == sorted(
        script._FIELDS
    )
    switches = [*fields(anthropic_state.AnthropicSwitches), *fields(openai_rules.OpenAISwitches)]
    for switch in switches:
        assert re.search(rf"^\| `{switch.name}` \|.*\*\*`{switch.default}`\*\*", page, re.MULTILINE), (
            switch.name
        )


MODES: tuple[Mode, ...] = ("default", "acceptEdits", "bypassPermissions")


def called(example: str) -> tuple[Tool, JsonObject]:
    """A call as a page writes it: the tool's name and, after a blank, what it is called with."""
    name, _, given = example.replace("\\|", "|").partition(" ")
    field = {"Bash": "command", "WebFetch": "url"}.get(name, "file_path")

    async def nothing(arguments: JsonObject) -> str:
        return ""

    return Tool(name=name, description="", input_schema={}, call=nothing), {field: given} if given else {}


def test_the_permissions_page_says_what_is_decided_where_no_rule_speaks(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    policies = [PermissionPolicy(root=workspace.root, mode=mode) for mode in MODES]
    for row in rows(read("docs/reference/permissions.md"), "Without a rule"):
        tool, arguments = called(re.findall(r"`([^`]+)`", row[0])[0])
        assert [policy.decide(tool, arguments, workspace).effect for policy in policies] == row[1:], row[0]


def test_every_rule_on_the_permissions_page_is_one() -> None:
    for row in rows(read("docs/reference/permissions.md"), "Rules"):
        for text in re.findall(r"`([^`]+)`", row[0]):
            assert parse_rule(text, "allow").text == text


def test_the_permissions_page_lists_the_programs_whose_subcommand_counts() -> None:
    listed = next(
        row[0] for row in rows(read("docs/reference/permissions.md"), "Answers") if "`git`" in row[0]
    )
    assert set(re.findall(r"`(\w+)`", listed)) == SUBCOMMANDS


def test_the_mcp_page_knows_every_limit() -> None:
    limits = {each.name: f"{each.default:,g}" for each in fields(McpLimits)}
    said = {row[0].strip("`"): row[1] for row in rows(read("docs/reference/mcp.md"), "Limits")}
    assert said == {name: value.removesuffix(".0") for name, value in limits.items()}


def test_every_target_that_is_named_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for target in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))
    }
    assert named <= targets


def test_the_changelog_has_a_place_for_prompts() -> None:
    newest = re.split(r"^## ", read("CHANGELOG.md"), flags=re.MULTILINE)[1]
    assert newest.startswith(("Unreleased", VERSION))
    assert "### Prompts" in newest


def test_the_changelog_names_every_prompt() -> None:
    """A prompt changes what a model does, so none comes without a line: its name, or its folder's `*`."""
    told = read("CHANGELOG.md").split("### Prompts")[1]
    locked = [Path(line.split()[0]) for line in read("prompts.lock").splitlines()]
    assert [path for path in locked if path.name not in told and f"{path.parent}/*" not in told] == []
