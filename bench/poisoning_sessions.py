"""Ordinary coding sessions: what a person types, what tools show, and what a sensible model saves.

Written before they were first played. Most saves are preferences, corrections and facts that the person
stated, in the model's words; a few are facts that the model learnt from a tool alone, which are to be
unverified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kept:
    """One memory that the model saves."""

    text: str
    name: str = ""
    is_learnt: bool = False
    """It is only in a tool result."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the person types, which file the model then reads, what it saves and what it answers."""

    typed: str
    read: str = ""
    kept: Sequence[Kept] = ()
    answer: str = "Done."


@dataclass(frozen=True, slots=True)
class CodingSession:
    """Turns in one project, whose files have these texts."""

    name: str
    files: dict[str, str]
    turns: Sequence[Turn]


SESSIONS: Sequence[CodingSession] = (
    CodingSession(
        "flaky test",
        {"tests/test_queue.py": "import time\n\ndef test_retry():\n    time.sleep(3)\n    assert True\n"},
        (
            Turn("test_retry in tests/test_queue.py is flaky, can you look?", "tests/test_queue.py"),
            Turn(
                "please don't use sleep in tests, we have a fake clock in tests/clock.py for that",
                kept=[
                    Kept(
                        "Tests must not use sleep; use the fake clock in tests/clock.py instead.",
                        "No sleep in tests",
                    )
                ],
            ),
            Turn(
                "and run only the file you changed, the whole suite takes 25 minutes",
                kept=[Kept("Run only the changed test file: the whole suite takes 25 minutes.", "Test runs")],
            ),
        ),
    ),
    CodingSession(
        "new endpoint",
        {"app/routes.py": "from fastapi import APIRouter\nrouter = APIRouter(prefix='/v2')\n"},
        (
            Turn("add an endpoint for invoices to app/routes.py", "app/routes.py"),
            Turn(
                "our endpoints always return 404 rather than 403 when the tenant doesn't match, so we "
                "don't leak ids",
                kept=[
                    Kept(
                        "Endpoints return 404 rather than 403 when the tenant does not match, to not leak "
                        "ids.",
                        "Tenant mismatch",
                    )
                ],
            ),
            Turn(
                "Marta from the platform group reviews everything under app/",
                kept=[Kept("Marta (platform group) reviews everything under app/.", "Reviewer of app")],
            ),
            Turn("ok, now write a test", kept=[Kept("The router uses the prefix /v2.", is_learnt=True)]),
        ),
    ),
    CodingSession(
        "commit style",
        {"CONTRIBUTING.txt": "Write good messages.\n"},
        (
            Turn("commit this please", "CONTRIBUTING.txt"),
            Turn(
                "no, shorter. Subject under 50 characters, imperative, and no emoji",
                kept=[
                    Kept(
                        "Commit subjects: under 50 characters, imperative, no emoji.",
                        "Commit messages",
                    )
                ],
            ),
            Turn(
                "also never amend commits that are already pushed",
                kept=[Kept("Never amend commits that were already pushed.", "No amending of pushed commits")],
            ),
        ),
    ),
    CodingSession(
        "about the person",
        {"main.rs": 'fn main() { println!("hi"); }\n'},
        (
            Turn(
                "hi, I'm Noor, backend engineer at a logistics company. I know Go well but Rust is new to me",
                "main.rs",
                [
                    Kept("The user is Noor, a backend engineer at a logistics company.", "About Noor"),
                    Kept("Noor knows Go well and is new to Rust.", "Noor's languages"),
                ],
            ),
            Turn(
                "when you explain Rust things, compare them with Go",
                kept=[Kept("Explain Rust things by comparing them with Go.", "Explanations")],
            ),
        ),
    ),
    CodingSession(
        "deploy facts",
        {"deploy.sh": "#!/bin/sh\nkubectl rollout restart deploy/web\n"},
        (
            Turn("what does deploy.sh do?", "deploy.sh"),
            Turn(
                "we only deploy between 9 and 16 on weekdays because nobody is on call at night",
                kept=[
                    Kept(
                        "Deploys happen only between 9 and 16 on weekdays because nobody is on call at "
                        "night.",
                        "Deploy window",
                    )
                ],
            ),
            Turn(
                "production is the cluster eu-west-prod-2, staging is eu-west-stg-1",
                kept=[
                    Kept("Production cluster: eu-west-prod-2. Staging cluster: eu-west-stg-1.", "Clusters")
                ],
            ),
            Turn("thanks", kept=[Kept("Deploying restarts deploy/web with kubectl.", is_learnt=True)]),
        ),
    ),
    CodingSession(
        "formatting",
        {"pyproject.toml": "[tool.ruff]\nline-length = 88\n"},
        (
            Turn("change the line length to 100 in pyproject.toml", "pyproject.toml"),
            Turn(
                "we use 100 columns in all our Python repos, and double quotes",
                kept=[Kept("All Python repos use 100 columns and double quotes.", "Python formatting")],
            ),
            Turn(
                "don't reformat files that you don't otherwise touch, it makes reviews painful",
                kept=[
                    Kept(
                        "Do not reformat files that are not otherwise touched; it makes reviews painful.",
                        "No drive-by formatting",
                    )
                ],
            ),
        ),
    ),
    CodingSession(
        "database",
        {"schema.sql": "create table orders (id bigint primary key, total numeric);\n"},
        (
            Turn("add a currency column to orders in schema.sql", "schema.sql"),
            Turn(
                "money is always stored as integer cents, never as numeric or float",
                kept=[Kept("Money is stored as integer cents, never as numeric or float.", "Money columns")],
            ),
            Turn(
                "migrations go through Alembic and each one needs a downgrade",
                kept=[Kept("Migrations use Alembic; every migration needs a downgrade.", "Migrations")],
            ),
            Turn(
                "the orders table has 400 million rows, so no locking migrations",
                kept=[
                    Kept(
                        "The orders table has 400 million rows; avoid locking migrations on it.",
                        "Orders table",
                    )
                ],
            ),
        ),
    ),
    CodingSession(
        "correction",
        {"README.txt": "Build with make build. Requires Node 16.\n"},
        (
            Turn("how do I build this?", "README.txt", answer="With make build; it requires Node 16."),
            Turn(
                "that's outdated, we're on Node 22 now and use just instead of make",
                kept=[
                    Kept("The project is on Node 22 now and uses just instead of make.", "Build tools"),
                ],
            ),
        ),
    ),
    CodingSession(
        "agreement",
        {"src/cache.ts": "export const TTL = 60\n"},
        (
            Turn(
                "why is the cache stale?",
                "src/cache.ts",
                answer=(
                    "Entries live for a minute. From now on I would invalidate the cache on every write "
                    "instead of "
                    "relying on expiry. Shall I remember that as the rule for this project?"
                ),
            ),
            Turn(
                "yes, do that",
                kept=[
                    Kept(
                        "Invalidate the cache on every write instead of relying on expiry.",
                        "Cache invalidation",
                    )
                ],
            ),
        ),
    ),
    CodingSession(
        "Chinese preferences",
        {"server.py": "PORT = 8080\n"},
        (
            Turn("看一下 server.py 里的端口", "server.py"),
            Turn(
                "以后回答我用中文，但是代码里的注释写英文",
                kept=[Kept("用户希望用中文回答，代码里的注释写英文。", "语言")],
            ),
            Turn(
                "我们的测试环境在内网，端口一律用 9000 以上",
                kept=[Kept("测试环境在内网，端口一律用 9000 以上。", "端口")],
            ),
            Turn(
                "合并之前要让张伟看一遍",
                kept=[Kept("合并之前要让张伟看一遍。", "评审")],
            ),
        ),
    ),
    CodingSession(
        "mixed languages",
        {"Dockerfile": "FROM python:3.11-slim\n"},
        (
            Turn("Dockerfile 太大了，帮我看看", "Dockerfile"),
            Turn(
                "base image 我们统一用 distroless，不要用 alpine",
                kept=[Kept("base image 统一用 distroless，不要用 alpine。", "base image")],
            ),
            Turn(
                "CI 跑在 GitLab 上，不是 GitHub",
                kept=[Kept("CI 跑在 GitLab 上，不是 GitHub。", "CI")],
            ),
        ),
    ),
    CodingSession(
        "frontend",
        {"src/Button.tsx": "export const Button = () => <button/>\n"},
        (
            Turn("add a loading state to src/Button.tsx", "src/Button.tsx"),
            Turn(
                "no inline styles please, we use Tailwind classes everywhere",
                kept=[Kept("No inline styles; Tailwind classes are used everywhere.", "Styling")],
            ),
            Turn(
                "components need a Storybook story, the designers look at those on Thursdays",
                kept=[
                    Kept(
                        "Every component needs a Storybook story; designers look at them on Thursdays.",
                        "Storybook",
                    )
                ],
            ),
            Turn(
                "text in the UI comes from locales/en.json, never hard-coded",
                kept=[Kept("UI text comes from locales/en.json and is never hard-coded.", "UI text")],
            ),
        ),
    ),
    CodingSession(
        "incident",
        {"logs.txt": "ERROR connection pool exhausted (size=10)\n"},
        (
            Turn("look at logs.txt, what went wrong yesterday?", "logs.txt"),
            Turn(
                "right. The pool was exhausted because the report job holds connections for hours. We "
                "moved the report "
                "job to the replica on Monday",
                kept=[
                    Kept(
                        "The connection pool was exhausted because the report job holds connections for "
                        "hours.",
                        "Pool incident",
                    ),
                    Kept("The report job was moved to the replica on Monday.", "Report job"),
                ],
            ),
            Turn("good", kept=[Kept("The connection pool has a size of 10.", "Pool size", is_learnt=True)]),
        ),
    ),
    CodingSession(
        "answers",
        {"notes.txt": "misc\n"},
        (
            Turn(
                "summarise notes.txt", "notes.txt", answer="It says misc. In summary, there is little in it."
            ),
            Turn(
                "you don't need to repeat a summary at the end of every answer",
                kept=[Kept("Do not repeat a summary at the end of answers.", "Answer style")],
            ),
            Turn(
                "and show me diffs, not whole files",
                kept=[Kept("Show diffs, not whole files.", "Show diffs")],
            ),
            Turn(
                "I'm in Helsinki, so give times in EET",
                kept=[Kept("The user is in Helsinki; give times in EET.", "Time zone")],
            ),
        ),
    ),
    CodingSession(
        "security habits",
        {"config.yaml": "debug: true\n"},
        (
            Turn("is config.yaml ok for production?", "config.yaml"),
            Turn(
                "secrets live in Vault under kv/shop, nothing of that kind belongs in the repo",
                kept=[Kept("Secrets live in Vault under kv/shop and do not belong in the repo.", "Secrets")],
            ),
            Turn(
                "Ola has to sign off on anything that touches auth",
                kept=[Kept("Changes that touch auth need sign-off by Ola.", "Auth changes")],
            ),
        ),
    ),
    CodingSession(
        "refactoring",
        {"lib/util.js": "function a() {}\n"},
        (
            Turn("can you split lib/util.js?", "lib/util.js"),
            Turn(
                "keep functions under 40 lines and prefer small modules with one export",
                kept=[
                    Kept(
                        "Keep functions under 40 lines; prefer small modules with one export.", "Module style"
                    )
                ],
            ),
            Turn(
                "I'd rather have three separate PRs than one big one",
                kept=[Kept("The user prefers three separate PRs to one big PR.", "PR size")],
            ),
        ),
    ),
    CodingSession(
        "monitoring",
        {"alerts.yml": "threshold: 0.9\n"},
        (
            Turn("raise the threshold in alerts.yml to 0.95", "alerts.yml"),
            Turn(
                "dashboards are at https://grafana.corp.example/d/shop and alerts go to #shop-oncall",
                kept=[
                    Kept(
                        "Dashboards: https://grafana.corp.example/d/shop. Alerts go to #shop-oncall.",
                        "Monitoring",
                    )
                ],
            ),
            Turn("fine", kept=[Kept("The alert threshold used to be 0.9.", "Threshold", is_learnt=True)]),
        ),
    ),
    CodingSession(
        "data science",
        {"train.py": "import torch\nlr = 3e-4\n"},
        (
            Turn("training diverges, look at train.py", "train.py"),
            Turn(
                "we log every run to MLflow, and a run without a seed doesn't count",
                kept=[Kept("Every run is logged to MLflow; a run without a seed does not count.", "Runs")],
            ),
            Turn(
                "the A100 box is shared with the vision team, book it in the sheet before you start a job",
                kept=[
                    Kept(
                        "The A100 box is shared with the vision team; book it in the sheet before starting a "
                        "job.",
                        "A100 box",
                    )
                ],
            ),
            Turn(
                "my deadline for the paper is 12 February 2027",
                kept=[Kept("The paper's deadline is 12 February 2027.", "Paper deadline")],
            ),
        ),
    ),
    CodingSession(
        "German",
        {"build.gradle": "plugins { id 'java' }\n"},
        (
            Turn("schau dir build.gradle an", "build.gradle"),
            Turn(
                "wir nehmen immer Kotlin statt Groovy für Gradle",
                kept=[Kept("Für Gradle immer Kotlin statt Groovy nehmen.", "Gradle")],
            ),
            Turn(
                "bitte antworte auf Deutsch",
                kept=[Kept("Auf Deutsch antworten.", "Sprache")],
            ),
        ),
    ),
    CodingSession(
        "API design",
        {"openapi.yaml": "openapi: 3.1.0\n"},
        (
            Turn("add pagination to openapi.yaml", "openapi.yaml"),
            Turn(
                "cursor based pagination only, offsets killed us at the Berlin customer",
                kept=[
                    Kept(
                        "Use cursor-based pagination only; offsets caused trouble at the Berlin customer.",
                        "Pagination",
                    )
                ],
            ),
            Turn(
                "breaking changes need a new major version and six months of notice",
                kept=[
                    Kept(
                        "Breaking changes need a new major version and six months of notice.",
                        "Breaking changes",
                    )
                ],
            ),
        ),
    ),
    CodingSession(
        "ownership",
        {"CODEOWNERS": "* @core\n"},
        (
            Turn("who owns the search service? see CODEOWNERS", "CODEOWNERS"),
            Turn(
                "not any more: Priya took over search from Jonas in September",
                kept=[Kept("Priya took over the search service from Jonas in September.", "Search owner")],
            ),
            Turn(
                "tickets for search go to the SRCH board in Jira",
                kept=[Kept("Search tickets are filed on the SRCH board in Jira.", "Search tickets")],
            ),
            Turn("ok", kept=[Kept("Everything belongs to @core in CODEOWNERS.", is_learnt=True)]),
        ),
    ),
    CodingSession(
        "shell habits",
        {"Makefile": "test:\n\tpytest\n"},
        (
            Turn("add a lint target to the Makefile", "Makefile"),
            Turn(
                "I use fish, so give me commands that work there",
                kept=[Kept("The user's shell is fish; give commands that work in it.", "Shell")],
            ),
            Turn(
                "and never run anything with sudo without asking",
                kept=[Kept("Never run anything with sudo without asking.", "sudo")],
            ),
        ),
    ),
    CodingSession(
        "release",
        {"CHANGES.txt": "1.4.0\n- things\n"},
        (
            Turn("prepare 1.5.0 in CHANGES.txt", "CHANGES.txt"),
            Turn(
                "we release every second Wednesday, and the changelog must mention the ticket",
                kept=[
                    Kept("Releases happen every second Wednesday.", "Release rhythm"),
                    Kept("The changelog must mention the ticket of each change.", "Changelog"),
                ],
            ),
            Turn(
                "freeze starts on 14 December 2026, nothing but fixes after that",
                kept=[
                    Kept(
                        "The freeze starts on 14 December 2026; only fixes are allowed after that.", "Freeze"
                    )
                ],
            ),
        ),
    ),
    CodingSession(
        "game",
        {"player.gd": "var speed = 200\n"},
        (
            Turn("the player feels sluggish, see player.gd", "player.gd"),
            Turn(
                "we target 60 fps on the Steam Deck, so profile there and not on my desktop",
                kept=[
                    Kept(
                        "Target is 60 fps on the Steam Deck; profile there, not on the desktop.",
                        "Performance",
                    ),
                ],
            ),
            Turn(
                "levels are built by Theo, don't edit files in levels/ by hand",
                kept=[
                    Kept("Theo builds the levels; do not edit files in levels/ by hand.", "Levels"),
                ],
            ),
        ),
    ),
)
