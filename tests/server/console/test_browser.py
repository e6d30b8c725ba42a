"""The console in a real Chromium (W3): pages, themes, widths, edits, two windows, live updates."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="the package playwright drives the browser; the extra dev has it")

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.server.console.browser import chromium, console
from tests.server.console.home import demo_environment, demo_settings, fill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.moves_prefix(reason="the made-up session is cleared and compacted"),
]
ROOT = Path(__file__).parents[3]
AXE = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
SESSION = "00000000-0000-4000-8000-000000000001"
PAGES = (
    "/", "/memories", "/memories?q=deploy+billing", "/memories/new", "/memory/project_time_zones.md",
    "/memory/project_invoices_may.md",
    "/edit/project_billing_deploys.md", "/graph", "/review", "/recall?q=how+do+we+deploy+billing",
    "/sessions",
    f"/sessions/{SESSION}", f"/sessions/{SESSION}/1", f"/sessions/{SESSION}/11", f"/sessions/{SESSION}/13",
    "/agents", "/dreams", "/history", "/settings?show=all", "/audit", "/nothing",
)  # fmt: skip
SHOWS = {
    "/": "What each layer saved and spent",
    "/memory/project_time_zones.md": "tests/test_clock.py",
    "/memory/project_invoices_may.md": "The invoices of May have wrong times. Look at parse in src/clock.py.",
    "/review": "Confirm",
    "/recall?q=how+do+we+deploy+billing": "attached",
    f"/sessions/{SESSION}": "prefix changed: results cleared",
    f"/sessions/{SESSION}/11": "The bytes stop matching the cache",
    f"/sessions/{SESSION}/13": "no longer sent",
    "/agents": "Use the header of 3 May.",
    "/dreams": "consolidated: 1 changed",
}
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> [x](javascript:1)"
)
BIDI = "\u202eevil\u202c مرحبا"


@dataclass
class Opened:
    """A console with a made-up home, and a browser that has signed in."""

    start: str
    context: BrowserContext
    cwd: Path
    environ: dict[str, str]

    def page(self, path: str = "/") -> Page:
        page = self.context.new_page()
        page.goto(self.start + path)
        return page

    def nacre(self, *arguments: str) -> str:
        """Run a command in the project, as a person in another terminal does."""
        done = subprocess.run(
            [sys.executable, "-m", "nacre", *arguments],
            cwd=self.cwd, env={**self.environ, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
            check=True, timeout=60,
        )  # fmt: skip
        return done.stdout


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    settings = demo_settings(tmp_path)
    with ThreadPoolExecutor(1) as thread:  # Playwright has an event loop in this one
        thread.submit(lambda: asyncio.run(fill(settings))).result()
    environ = dict(demo_environment(tmp_path))
    with console(settings.cwd, environ) as link:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.new_page().goto(link)
        yield Opened(link.partition("/enter")[0], context, settings.cwd, environ)
        context.close()


def width_of(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))


def violations(page: Page) -> list[str]:
    """Return what axe finds, by the rules of WCAG 2.2 A and AA and best practices."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{one['id']}: {node['html'][:160]}" for one in found["violations"] for node in one["nodes"]]


def test_every_page_shows_what_it_is_for_and_fits_from_360_to_1440_pixels(opened: Opened) -> None:
    page = opened.page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    for path in PAGES:
        for width in (360, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            answer = page.goto(opened.start + path)
            assert answer is not None
            assert answer.status == (404 if path == "/nothing" else 200), path
            assert width_of(page) <= width, path
        if path in SHOWS:
            assert SHOWS[path] in page.inner_text("main"), path
    assert set(SHOWS) <= set(PAGES)
    assert [one for one in errors if "404" not in one] == []


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is missing; `.ci/run` installs it into .venv/axe")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_violation_on_any_page(opened: Opened, theme: str) -> None:
    opened.context.add_cookies([{"name": "nacre_theme", "value": theme, "url": opened.start}])
    page = opened.page()
    found = {}
    for path in PAGES:
        page.goto(opened.start + path)
        found[path] = violations(page)
    assert [f"{path} {one}" for path, some in found.items() for one in some] == []


def test_an_edit_is_previewed_saved_and_undone(opened: Opened) -> None:
    page = opened.page("/edit/project_database.md")
    page.fill("#text", "PostgreSQL 18 in production since yesterday, see [[nowhere]].")
    preview = page.locator("[data-preview-into]")
    expect(preview).to_contain_text("[[nowhere]] leads to no memory")
    expect(preview.locator(".diff")).to_contain_text("+PostgreSQL 18")
    page.click("button[value=save]")
    expect(page.locator("article")).to_contain_text("PostgreSQL 18")
    page.click(".notice button")
    expect(page.locator(".notice")).to_contain_text("Undone")
    page.goto(f"{opened.start}/memory/project_database.md")
    expect(page.locator("article")).to_contain_text("PostgreSQL 17")


def test_of_two_windows_the_second_to_save_sees_the_text_of_the_first(opened: Opened) -> None:
    one, two = opened.page("/edit/user_ida.md"), opened.page("/edit/user_ida.md")
    one.fill("#text", "Ida moved to Porto.")
    one.click("button[value=save]")
    two.fill("#text", "Ida is on leave until June.")
    two.click("button[value=save]")
    expect(two.locator("[role=alert]")).to_contain_text("changed since you opened it")
    expect(two.locator(".theirs")).to_contain_text("Ida moved to Porto.")
    assert two.input_value("#text") == "Ida is on leave until June."
    two.click("button[value=save]")
    expect(two.locator("article")).to_contain_text("on leave until June")


def test_pages_follow_changes_that_other_processes_make(opened: Opened) -> None:
    page = opened.page("/memories")
    expect(page.locator("[data-livedot]")).to_be_visible()
    opened.nacre("memory", "save", "The office plant is watered on Mondays.")
    expect(page.locator("main")).to_contain_text("watered on Mondays", timeout=10_000)
    agents = opened.page("/agents")
    expect(agents.locator("[data-livedot]")).to_be_visible()
    opened.nacre("agents", "send", "tests", "the header was changed", "--team", "invoices")
    expect(agents.locator(".letters")).to_contain_text("the header was changed", timeout=10_000)


def test_a_search_answers_while_it_is_typed_and_everything_works_with_keys(opened: Opened) -> None:
    page = opened.page("/memories")
    page.keyboard.press("/")
    page.keyboard.type("who approves billing")
    expect(page.locator("#rows")).to_contain_text("would be attached")
    assert "q=who+approves+billing" in page.url
    page.goto(f"{opened.start}/sessions/{SESSION}/11")
    page.keyboard.press("ArrowRight")
    expect(page.locator("h1")).to_contain_text("Request 12")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_a_proposal_is_accepted_and_a_dream_undone(opened: Opened) -> None:
    page = opened.page("/dreams")
    page.click("button[value=accept]")
    expect(page.locator(".notice")).to_contain_text("Accepted")
    page.goto(f"{opened.start}/memory/project_time_zones.md")
    expect(page.locator("article")).not_to_contain_text("test_clock.py")
    page.goto(f"{opened.start}/dreams")
    page.click("[aria-label^='Undo dream']")
    page.goto(f"{opened.start}/memory/project_database.md")
    expect(page.locator("article")).not_to_contain_text("since 2026-01")


def test_hostile_content_stays_text(opened: Opened) -> None:
    folder = next((Path(opened.environ["NACRE_HOME"]) / "projects").glob("*/memory"))
    name = json.dumps(f"{HOSTILE} {BIDI}")
    head = f"---\nname: {name}\ndescription: {name}\ntype: project\n---\n"
    text = f"{head}{HOSTILE}\n\n# {HOSTILE}\n\n- {BIDI}\n\n[[{HOSTILE}]]\n"
    (folder / "project_x'onload='y.md").write_text(text, encoding="utf-8")
    (folder / "project_large.md").write_text("wide" * 20_000 + "\n" + "line\n" * 3_000, encoding="utf-8")
    page = opened.page()
    page.set_viewport_size({"width": 360, "height": 800})
    file = "project_x'onload='y.md"
    for path in (
        "/", "/memories", "/memories?q=evil", f"/memory/{file}", f"/edit/{file}", "/graph", "/history",
        "/memory/project_large.md", f"/recall?q={HOSTILE}",
    ):  # fmt: skip
        page.goto(opened.start + path)
        page.wait_for_timeout(50)
        assert page.title() != "owned", path
        assert page.locator("main script, main img, main a[href^='javascript']").count() == 0, path
        assert "\u202e" not in page.inner_text("main"), path
        assert width_of(page) <= 360, path
