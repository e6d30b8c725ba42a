"""A dream without a model: what needs no judgement is put in order, and nothing is lost by it."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.layers.l6_dream.by_rule import DreamRules, by_rule
from nacre.layers.l6_dream.by_rule_index import REPAIRED
from nacre.layers.l6_dream.by_rule_merge import contradicts, sentences
from nacre.layers.l6_dream.check import CheckContext, problems
from nacre.layers.l6_dream.copy import DirectoryCopy
from nacre.memory.dates.relative import resolve_dates
from nacre.memory.files.folder import is_ours
from nacre.memory.format.index import MemoryIndex
from nacre.memory.recall.base import Drift, Reference
from nacre.memory.recall.drift.check import check_each, has_code
from tests.layers.l6_dream.made import DEPLOYS, FILES, NOW, OTHERS, topic
from tests.scale import scaled

DATA = Path(__file__).parents[4] / "shared" / "data" / "claude_memory"
RULES = DreamRules(now=NOW, resolve=resolve_dates)
MANY = {f"many_{n}.md": topic(f"Matter {n}", f"It concerns w{n}x alone.", kind="user") for n in range(165)}
LISTED = "".join(f"- [Matter {n}](many_{n}.md) — concerns w{n}x\n" for n in range(165))
"""More than four fifths of an index."""


def dreamt(files: Mapping[str, bytes], rules: DreamRules = RULES, **given: object) -> DirectoryCopy:
    copy = DirectoryCopy(files, **given)  # type: ignore[arg-type]
    by_rule(copy, rules)
    assert problems(copy, CheckContext(root=Path("/nowhere"), today=NOW.date())) == []
    return copy


def pointers(copy: DirectoryCopy) -> list[str]:
    return [line.file for line in MemoryIndex.parse(copy.now["MEMORY.md"]).pointers]


def test_a_memory_that_is_there_twice_becomes_one_and_the_index_lists_what_there_is() -> None:
    """D8."""
    copy = dreamt(FILES)
    assert copy.now.keys() == FILES.keys() - {"deploys_again.md"}
    assert pointers(copy) == ["deploys.md", *OTHERS]
    told = {step.file: (step.action, step.reason) for step in copy.final_steps()}
    assert told == {
        "MEMORY.md": ("changed", f"{REPAIRED}; dropped the line [Gone](gone.md): the file is gone"),
        "deploys_again.md": ("removed", "merged into deploys.md"),
    }


def test_what_only_the_other_one_says_is_kept() -> None:
    more = topic(
        "Deploys",
        "Deploys go out on Tuesdays through the pipeline after two approvals from the platform group.\n\n"
        "Ask Ines in the ops channel before the first one.",
    )
    copy = dreamt({**FILES, "deploys_again.md": more})
    assert "deploys.md" not in copy.now
    assert b"Ask Ines" in copy.now["deploys_again.md"]


def test_nearly_the_same_words_are_one_memory_and_its_other_name_is_not_lost() -> None:
    one = topic(
        "Release train",
        "Every release leaves on the second Thursday after the quality team signed the list in the wiki.",
        modified="2026-03-01T00:00:00Z",
    )
    other = topic(
        "Release schedule",
        "Every release leaves on the second Thursday after the quality team has signed the list in the wiki.",
        modified="2026-03-05T00:00:00Z",
    )
    copy = dreamt({**OTHERS, "train.md": one, "schedule.md": other})
    assert "train.md" not in copy.now
    assert b"Also known as: Release train" in copy.now["schedule.md"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Keep the timeout of the gateway at {} seconds for all calls.", ("30", "60")),
        ("{} squash commits before merging a branch to main.", ("Always", "Never")),
        ("The reviewer for the billing service code is {} these days.", ("Alice", "Bob")),
        ("Run `make {}` before every push to the shared branch.", ("check", "test")),
        ("发布之前{}等两个人批准合并请求", ("要", "不要")),
    ],
)
def test_what_may_contradict_is_left_to_somebody_who_can_tell(text: str, words: tuple[str, str]) -> None:
    one, other = (text.format(word) for word in words)
    assert contradicts(one, other)
    files = {**OTHERS, "a.md": topic("The rule", one), "b.md": topic("The rule", other)}
    copy = dreamt(files)
    assert {"a.md", "b.md"} <= copy.now.keys()


@pytest.mark.parametrize(
    "more",
    [{"pinned": "true"}, {"origin": "untrusted"}, {"local-only": "true"}, {"type": "feedback"}],
    ids=str,
)
def test_memories_that_differ_in_more_than_words_are_not_merged(more: dict[str, str]) -> None:
    """M16b, M27: nobody gains trust or is shown to more people by a merge; what is pinned stays."""
    kind = more.pop("type", "project")
    text = "Deploys go out on Tuesdays through the pipeline after two approvals from the platform group."
    files = {**FILES, "deploys.md": topic("Deploys", text, kind=kind, **more)}
    if "pinned" in more:
        assert "deploys_again.md" not in dreamt(files).now, "the pinned one stays, and stays as it is"
        files = {**files, "deploys_again.md": topic("Deploys", text, pinned="true")}
    copy = dreamt(files)
    assert {"deploys.md", "deploys_again.md"} <= copy.now.keys()
    assert copy.now["deploys.md"] == files["deploys.md"]


def test_what_the_person_wrote_is_only_proposed_to() -> None:
    """D6."""
    files = {**FILES, "mine.md": topic("Mine", "We chose the blue one yesterday.")}
    copy = dreamt(files, by_person={"mine.md"})
    assert copy.now["mine.md"] == files["mine.md"]
    (proposal,) = copy.proposals
    assert proposal.file == "mine.md" and b"2026-03-01" in (proposal.after or b"")


def test_two_proposals_to_one_file_do_not_undo_each_other() -> None:
    text = topic("Freeze", "The freeze in src/gone.py is over. We agreed on it yesterday.")
    gone = Drift(references=(Reference(kind="path", text="src/gone.py", exists=False),))
    rules = replace(RULES, check=lambda texts: [gone if "src/gone" in one else Drift() for one in texts])
    copy = dreamt({**OTHERS, "freeze.md": text}, rules, by_person={"freeze.md"})
    (proposal,) = copy.proposals
    assert proposal.after is not None
    assert b"drift:" in proposal.after and b"2026-03-01" in proposal.after


def test_a_memory_of_the_persons_is_not_merged_away() -> None:
    copy = dreamt(FILES, by_person={"deploys.md", "deploys_again.md"})
    assert {"deploys.md", "deploys_again.md"} <= copy.now.keys()
    (proposal,) = copy.proposals
    assert proposal.after is None and proposal.reason.startswith("says the same as deploys")


def test_relative_dates_are_resolved_by_the_dates_of_the_frontmatter_only() -> None:
    """D8: the file's own time changes with a copy or a checkout, so it is no record of when it was said."""
    files = {**OTHERS, "choice.md": topic("Choice", "We chose Postgres yesterday.")}
    assert b"2026-03-01" in dreamt(files).now["choice.md"]
    bare = {**OTHERS, "choice.md": b"---\nname: Choice\ntype: user\n---\n\nWe chose Postgres yesterday.\n"}
    at = {"choice.md": datetime(2026, 5, 2, 12, tzinfo=UTC)}
    assert dreamt(bare, written=at).now["choice.md"] == bare["choice.md"]


def test_relative_dates_stay_where_created_and_modified_give_different_dates() -> None:
    text = "We chose Postgres yesterday."
    early, late = "2026-03-02T08:00:00Z", "2026-06-02T08:00:00Z"
    same = {**OTHERS, "choice.md": topic("Choice", text, created=early)}
    assert b"2026-03-01" in dreamt(same).now["choice.md"]
    changed = {**OTHERS, "choice.md": topic("Choice", text, created=early, modified=late)}
    assert dreamt(changed).now["choice.md"] == changed["choice.md"]


@pytest.mark.parametrize(
    "text",
    [
        "**Why:** Today the client sets `gameId` in the header.",
        "Yesterday it was MP3, and non-MP3 is what we use today.",
        "现在今天的客户端设置这个字段，昨天说的。",
        "2026-07-16 (later still): decided yesterday.",
        "Decided on 5 March, announced yesterday.",
        "## Notes of 2026-01-20\n\nYesterday we agreed on it.",
    ],
)
def test_a_paragraph_with_today_or_with_a_date_of_its_own_is_not_changed(text: str) -> None:
    files = {**OTHERS, "choice.md": topic("Choice", text, description="A choice")}
    assert dreamt(files).now["choice.md"] == files["choice.md"]
    both = {**OTHERS, "choice.md": topic("Choice", f"We met yesterday.\n\n{text}", description="A choice")}
    after = dreamt(both).now["choice.md"].decode()
    assert "We met on 2026-03-01.\n\n" in after and text in after


def test_code_that_spans_paragraphs_is_not_changed() -> None:
    text = "```\nselect\n\nfrom yesterday\n```\n\nWe chose it yesterday."
    after = dreamt({**OTHERS, "choice.md": topic("Choice", text, description="A choice")}).now["choice.md"]
    assert b"from yesterday\n```\n\nWe chose it on 2026-03-01." in after


@pytest.mark.parametrize(
    "text",
    [
        "Merges are frozen until 2026-03-05 for the mobile release.",
        "Billing is owned by Priya since 2026-01-10.",
        "Fixed 2026-04-08 by adding `query:`.",
    ],
)
def test_a_dream_by_rule_marks_nothing_as_expired(text: str) -> None:
    """A date that has passed does not say that what the memory says is over."""
    files = {**OTHERS, "m.md": topic("Matter", text)}
    assert dreamt(files).now["m.md"] == files["m.md"]
    marked = {**OTHERS, "m.md": topic("Matter", text, expired="2026-03-05")}
    assert dreamt(marked).now["m.md"] == marked["m.md"], "a mark that is there stays and can be read"


def test_a_memory_of_which_nothing_is_left_in_the_project_says_so() -> None:
    """D8, R12."""
    texts = {"Look into src/gone.py first.": False, "Begin with src/there.py.": True}
    files = {**OTHERS, **{f"m{n}.md": topic(f"Hint {n}", text) for n, text in enumerate(texts)}}

    def check(bodies: object) -> list[Drift]:
        def one(text: str) -> Drift:
            found = [exists for said, exists in texts.items() if said in text]
            return Drift(references=tuple(Reference(kind="path", text="src/x.py", exists=x) for x in found))

        return [one(str(body)) for body in bodies]  # type: ignore[attr-defined]

    copy = dreamt(files, replace(RULES, check=check))
    assert b"drift: " in copy.now["m0.md"]
    assert copy.now["m1.md"] == files["m1.md"]
    texts["Look into src/gone.py first."] = True
    back = copy.now
    assert b"drift:" not in dreamt(back, replace(RULES, check=check)).now["m0.md"]


@pytest.mark.parametrize(
    ("text", "is_marked"),
    [
        ("Look into `src/gone.py` first.", True),
        ("Never open PRs with `--draft`.", False),
        ("Open PRs with `--draft`.", False),
        ("Do not bring back `src/gone.py`.", False),
        ("Put checks into `__post_init__`.", False),
        ("Never push to main. Look into `src/gone.py` e.g. for the hooks.", True),
        ("不要再用 `src/gone.py`。", False),
    ],
)
def test_a_rule_that_is_obeyed_is_not_marked_as_drift(tmp_path: Path, text: str, is_marked: bool) -> None:
    """What a memory forbids is not missed in the project; a flag may be another program's."""
    (tmp_path / "README").write_text("nothing\n")
    rules = replace(RULES, check=partial(check_each, root=tmp_path, budget_seconds=5.0))
    copy = dreamt({**OTHERS, "m.md": topic("Matter", text, description="A matter")}, rules)
    assert (b"drift:" in copy.now["m.md"]) is is_marked
    marked = topic("Matter", text, description="A matter", drift='"gone: it"')
    again = dreamt({**OTHERS, "m.md": marked}, rules)
    assert (b"drift:" in again.now["m.md"]) is is_marked, "a mark that was wrong is taken back"
    assert dreamt({**OTHERS, "m.md": marked}).now["m.md"] == marked, "unless nothing was looked for"


def test_a_long_hook_is_not_replaced_by_a_description_that_says_less() -> None:
    hook = "the retries of the payment client are capped at three because the vendor bills each one " * 3
    files = {**OTHERS, "pr.md": topic("Payments", f"Long. {hook}", description="PR", kind="user")}
    row = f"- [Payments](pr.md) — {hook}".rstrip()
    copy = dreamt({**files, "MEMORY.md": f"# Memory\n\n{row}\n".encode()})
    assert row in copy.now["MEMORY.md"].decode(), "where there is room, a line stays as it is"
    copy = dreamt({**files, **MANY, "MEMORY.md": f"# Memory\n\n{row}\n{LISTED}".encode()})
    line = next(one for one in MemoryIndex.parse(copy.now["MEMORY.md"]).pointers if one.file == "pr.md")
    assert line.hook.startswith("the retries of the payment client") and len(line.raw) <= 151


def test_a_hook_is_cut_after_its_first_clause() -> None:
    """What was behind it moves into the memory."""
    hook = "arena tables have option 201 set to 2; matchmade games have it, too, and are probed " * 3
    files = {**OTHERS, "pr.md": topic("Tables", "How to tell them apart.", description="PR", kind="user")}
    index = f"# Memory\n\n- [Tables](pr.md) — {hook}\n{LISTED}"
    copy = dreamt({**files, **MANY, "MEMORY.md": index.encode()})
    assert "- [Tables](pr.md) — arena tables have option 201 set to 2\n" in copy.now["MEMORY.md"].decode()
    assert b"matchmade games have it, too" in copy.now["pr.md"]


def test_lines_of_files_that_are_gone_go_one_by_one_and_are_in_the_report() -> None:
    """D7, D8: many of them at once, or one that says what no memory says, stay."""
    told = b"- [Gannet](gannet.md) - closed, do not contact Mira Holm about it\n"
    listed = b"".join(b"- [Hobby](topic_%d.md) - at length\n" % n for n in range(8))
    copy = dreamt({**OTHERS, "MEMORY.md": b"# Memory\n\n" + listed + told + b"- [Old](old.md) - notes\n"})
    assert told in copy.now["MEMORY.md"] and b"old.md" not in copy.now["MEMORY.md"]
    (step,) = copy.final_steps()
    assert step.reason == f"{REPAIRED}; dropped the line [Old](old.md): the file is gone"
    assert problems(copy, CheckContext(root=Path("/nowhere"), today=NOW.date())) == []
    many = b"".join(b"- [Old](old_%d.md) - notes\n" % n for n in range(9))
    files = {**OTHERS, "MEMORY.md": b"# Memory\n\n## Old\n\n" + many + b"\n## New\n\n" + listed}
    assert not dreamt(files).changed
    assert b"old_3.md" not in dreamt(files, replace(RULES, is_unlimited=True)).now["MEMORY.md"]


def test_a_heading_goes_with_the_last_line_below_it() -> None:
    """D8: a heading that a dropped line leaves empty says nothing; others stay."""
    index = (
        b"# Memory\n\n## Feedback\n\n- [Gone](gone.md) - nothing\n\n## Kept for later\n\n## Project\n\n"
        b"- [Deploys](deploys.md) - when\n"
    )
    files = {"MEMORY.md": index, "deploys.md": DEPLOYS}
    copy = dreamt(files)
    assert copy.now["MEMORY.md"] == (
        b"# Memory\n\n## Kept for later\n\n## Project\n\n- [Deploys](deploys.md) - when\n"
    )


@pytest.mark.parametrize(
    "index",
    [
        b"# Memory\n\n## User\n## Project\n- [Deploys](deploys.md) - when\n",
        b"# Memory\n\n## User\n- [Chess](topic_1.md) - chess\n## Project\n- [Deploys](deploys.md) - when\n",
    ],
    ids=["an empty section", "lines up to the next heading"],
)
def test_a_new_line_is_followed_by_a_blank_one_before_the_next_heading(index: bytes) -> None:
    """D8."""
    files = {"MEMORY.md": index, "deploys.md": DEPLOYS}
    files |= {file: OTHERS[file] for file in ("topic_0.md", "topic_1.md")}
    lines = dreamt(files).now["MEMORY.md"].decode().split("\n")
    assert lines[lines.index("## Project") - 1] == ""
    assert sum("topic_0.md" in line for line in lines) == 1


def test_where_most_memories_name_what_is_not_there_none_is_marked(tmp_path: Path) -> None:
    """D8: the working tree is then not the one that they are about."""
    (tmp_path / "there.py").write_text("x = 1\n")
    files = {f"m{n}.md": topic(f"Hint {n}", f"Look into `src/gone_{n}.py` first.") for n in range(5)}
    rules = replace(RULES, check=partial(check_each, root=tmp_path, budget_seconds=5.0))
    assert not any(b"drift:" in data for data in dreamt({**OTHERS, **files}, rules).now.values())
    there = {f"n{n}.md": topic(f"Place {n}", f"Begin with `there.py`, step {n}.") for n in range(5)}
    assert any(
        b"drift:" in data for data in dreamt({**OTHERS, **there, "m1.md": files["m1.md"]}, rules).now.values()
    )


def test_a_directory_without_code_is_not_searched_for_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "CLAUDE.md").write_text("rules\n")
    assert not has_code(tmp_path)
    (tmp_path / "docs" / "conf.py").write_text("")
    assert has_code(tmp_path)


def test_days_logs_are_pointed_to_from_the_topic_they_are_about_and_stay_as_they_are() -> None:
    """D8, D9: pointers only; what a tool said is pointed to by nobody."""
    log = b"- 10:00 the platform group wants three approvals for deploys from now on\n- 11:00 lunch\n"
    tool = b"- 10:00 the pipeline of the platform group leaks approvals for deploys [untrusted]\n"
    files = {**FILES, "logs/2026/11/2026-11-03.md": log, "logs/2026/11/2026-11-04.md": tool}
    copy = dreamt(files)
    assert b"See also: [2026-11-03](logs/2026/11/2026-11-03.md)" in copy.now["deploys.md"]
    assert b"2026-11-04" not in copy.now["deploys.md"]
    assert copy.now["logs/2026/11/2026-11-03.md"] == log
    assert not dreamt(copy.now).changed


def test_in_daily_mode_typed_lines_of_past_logs_become_memories() -> None:
    """D9: once, with the day's date, and neither today's nor what a tool said."""
    log = (
        b"- 10:00 feedback: answer in German, code comments stay English\n"
        b"- 11:00 project: the demo for Gannet is tomorrow\n- 12:00 lunch\n"
        b"- 13:00 project: a page says to run it with sudo [untrusted]\n"
    )
    files = {"logs/2026/11/2026-11-03.md": log, "logs/2026/11/2026-11-15.md": b"- 09:00 user: likes herons\n"}
    daily = replace(RULES, is_daily=True)
    copy = dreamt(files, daily)
    made = {one.entry.kind: one.entry for one in copy.topics()}
    assert made.keys() == {"feedback", "project"}
    assert {one.file.partition("_")[0] for one in made.values()} == {"feedback", "project"}
    assert made["feedback"].file == "feedback_answer_german.md"
    assert made["feedback"].body.strip().startswith("answer in German, code comments stay English")
    assert "2026-11-04" in made["project"].body and "tomorrow" not in made["project"].body
    assert copy.now["logs/2026/11/2026-11-03.md"] == log
    index = copy.now["MEMORY.md"].decode()
    assert index.index(made["project"].file) < index.index("## Logs")
    assert not dreamt(copy.now, daily).changed
    assert not dreamt(files, replace(daily, since=NOW.date())).topics(), "sorted by the last dream"


def test_in_daily_mode_the_index_points_to_the_newest_logs() -> None:
    """D9, M17: only the dream writes it."""
    logs = {f"logs/2026/10/2026-10-{day:02}.md": b"- 10:00 nothing of note\n" for day in range(1, 21)}
    copy = dreamt({**OTHERS, **logs}, replace(RULES, is_daily=True))
    listed = [file for file in pointers(copy) if file.startswith("logs/")]
    assert listed == [f"logs/2026/10/2026-10-{day:02}.md" for day in range(20, 6, -1)]
    assert not dreamt(copy.now, replace(RULES, is_daily=True)).changed


@pytest.mark.slow
def test_the_index_keeps_to_its_budget_and_no_detail_of_a_hook_is_lost() -> None:
    """D3, M8, M9."""
    many = {
        f"m{n:03}.md": topic(
            f"Matter {n}", f"Matter number {n} concerns w{n}x and nothing else.", kind="user"
        )
        for n in range(260)
    }
    long = "the quick hint about zebras " + "and more zebras " * 20
    index = "# Memory\n\n" + "".join(f"- [Matter {n}](m{n:03}.md) — hint\n" for n in range(260))
    index = index.replace("(m007.md) — hint", f"(m007.md) — {long}")
    copy = dreamt({**many, "MEMORY.md": index.encode()})
    assert len(copy.now["MEMORY.md"].splitlines()) <= 200
    assert b"zebras" in copy.now["m007.md"]
    assert copy.now.keys() == {*many, "MEMORY.md"}, "what is not listed is still there"


def test_the_pinned_and_the_most_useful_stand_first() -> None:
    files = {**OTHERS, "topic_5.md": OTHERS["topic_5.md"].replace(b"---\n\n", b"pinned: true\n---\n\n")}
    listed = pointers(dreamt(files, replace(RULES, useful={"topic_3.md": 5.0})))
    assert listed[:2] == ["topic_5.md", "topic_3.md"]


def test_an_overfull_index_keeps_pinned_newest_and_most_used_memories() -> None:
    """M8: also those that had no line yet; a second dream has nothing to do."""
    many = {
        f"m{n:03}.md": topic(f"Matter {n}", f"Matter number {n} concerns w{n}x.", kind="user").replace(
            b"---\n\n", f"modified: 2026-{1 + n // 28:02}-{1 + n % 28:02}\n---\n\n".encode()
        )
        for n in range(260)
    }
    many["m000.md"] = many["m000.md"].replace(b"---\n\n", b"pinned: true\n---\n\n")
    listed = [n for n in range(260) if n not in {0, 3, 259}]
    index = "# Memory\n\n" + "".join(f"- [Matter {n}](m{n:03}.md) — hint\n" for n in listed)
    rules = replace(RULES, useful={f"m{n:03}.md": 9.0 if n < 5 else 1.0 for n in range(1, 200)})
    copy = dreamt({**many, "MEMORY.md": index.encode()}, rules)
    kept = set(pointers(copy))
    assert {"m000.md", "m001.md", "m003.md", *(f"m{n:03}.md" for n in range(250, 260))} <= kept
    assert not {f"m{n:03}.md" for n in range(200, 210)} & kept
    assert 190 <= len(kept) <= 200
    assert not dreamt(copy.now, rules).changed


def test_untrusted_and_local_memories_lose_their_line_in_the_index() -> None:
    """M8, M16b, M27."""
    index = b"# Memory\n\n- [A](a.md) - x\n- [B](b.md) - y\n"
    files = {
        **OTHERS,
        "MEMORY.md": index,
        "a.md": topic("A", "Said by a web page about gardens.", origin="untrusted"),
        "b.md": topic("B", "Known only on this machine of yours.", **{"local-only": "true"}),
    }
    assert not {"a.md", "b.md"} & set(pointers(dreamt(files)))


def test_a_dream_merges_at_most_a_fifth_unless_it_may_do_more() -> None:
    """D7: the rest has its turn the next day."""
    twins = {f"twin_{n}.md": DEPLOYS for n in range(10)}
    left = sum(file.startswith("twin") for file in dreamt(twins).now)
    assert left == 8
    copy = DirectoryCopy(twins)
    by_rule(copy, replace(RULES, is_unlimited=True))
    assert sum(file.startswith("twin") for file in copy.now) == 1


def test_links_to_what_was_merged_lead_to_what_it_was_merged_into() -> None:
    linking = topic("Ops", "See [[deploys_again]] and [[Hobby chess]] for the rest.")
    copy = dreamt({**FILES, "ops.md": linking})
    assert b"[[deploys]]" in copy.now["ops.md"] and b"[[Hobby chess]]" in copy.now["ops.md"]
    kept = dreamt({**FILES, "ops.md": linking}, by_person={"ops.md"})
    assert "deploys_again.md" in kept.now, "a link in the person's own words is not broken"


def test_files_that_are_no_text_stay_byte_for_byte() -> None:
    odd = {"odd.md": b"---\nname: \xff\xfe\n---\nyesterday \xff\n", "empty.md": b"", "bare.md": b"no head\n"}
    copy = dreamt({**FILES, **odd})
    assert {file: copy.now[file] for file in odd} == odd
    index = copy.now["MEMORY.md"].decode()
    assert "odd.md" not in index
    assert "bare.md" in index


WORDS = st.sampled_from("alpha beta gamma delta epsilon deploys on Tuesday never 3 `make` the a of".split())
BODIES = st.lists(st.lists(WORDS, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=4)


@settings(deadline=None, max_examples=scaled(60))
@given(st.lists(st.tuples(BODIES, st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_whatever_is_there_no_sentence_is_lost_and_a_second_dream_has_nothing_to_do(
    made: list[tuple[list[str], bool, bool]],
) -> None:
    """D6, D8: pinned files and the person's keep every byte."""
    files = {
        f"m{n}.md": topic(f"M {n}", ".\n".join(body), **({"pinned": "true"} if pinned else {}))
        for n, (body, pinned, _) in enumerate(made)
    }
    theirs = {f"m{n}.md" for n, (_, _, is_theirs) in enumerate(made) if is_theirs}
    copy = DirectoryCopy(files, by_person=theirs)
    by_rule(copy, replace(RULES, is_unlimited=True))
    for n, (_, pinned, is_theirs) in enumerate(made):
        if pinned or is_theirs:
            assert copy.now[f"m{n}.md"] == files[f"m{n}.md"]
    before = {
        sentence for file in files for sentence in sentences(DirectoryCopy(files).topic(file).entry.body)
    }
    after = [set(sentence.split()) for one in copy.topics() for sentence in sentences(one.entry.body)]
    for sentence in before:
        # Of two that differ in no word that counts, one may stand for both.
        assert any(len(set(sentence.split()) & other) >= 0.8 * len(set(sentence.split())) for other in after)
    again = DirectoryCopy(copy.now, by_person=theirs)
    by_rule(again, replace(RULES, is_unlimited=True))
    assert again.changed == {}


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the recorded memory folders are not here")
def test_real_folders_are_put_in_order_without_losing_anything() -> None:
    """D8 on folders that people's agents wrote."""
    seen = 0
    for archive in sorted(DATA.glob("*.tar.gz")):
        files = _memories(archive)
        if not files:
            continue
        seen += 1
        at = dict.fromkeys(files, datetime(2026, 6, 1, tzinfo=UTC))
        copy = dreamt(files, written=at)
        said = "\n".join(one.text for one in copy.topics()).casefold()
        for file in files.keys() - copy.now.keys():
            assert all(one in said for one in sentences(DirectoryCopy(files).topic(file).entry.body))
        assert not dreamt(copy.now, written=at).changed
    assert seen


def _memories(archive: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(archive) as packed:
        for member in packed:
            _, folder, file = member.name.partition("memory/")
            source = packed.extractfile(member) if member.isfile() and folder and is_ours(file) else None
            if source is not None:
                found[file] = source.read()
    return found
