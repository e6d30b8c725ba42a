"""Draws the pictures of the web console: the real server on a made-up home, in both themes.

Run `python docs/make_console.py` where the extra `dev` and Chromium are installed, and look at each picture.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from playwright.sync_api import Page  # noqa: E402

from tests.server.console.browser import chromium, console  # noqa: E402
from tests.server.console.home import demo_environment, demo_settings, fill  # noqa: E402

STAGE = Path("/tmp/nacre-demo")
FOLDER = ROOT / "docs" / "img" / "console"
SIZE = {"width": 1280, "height": 860}
SMALL = {"width": 360, "height": 780}
MAX_HEIGHT = 1500
COLOURS = 128
"""Colours of a picture, where pngquant can reduce them; enough for plain pages."""
MAX_BYTES = 150_000
"""Larger pictures are not committed."""
SESSION = "00000000-0000-4000-8000-000000000001"
PAGES = {
    "overview": "/",
    "memories": "/memories",
    "search": "/memories?q=deploy+billing",
    "memory": "/memory/project_invoices_may.md",
    "edit": "/edit/project_billing_deploys.md",
    "links": "/graph",
    "review": "/review",
    "recall": "/recall?q=how+do+we+deploy+billing",
    "sessions": "/sessions",
    "session": f"/sessions/{SESSION}",
    "request-cleared": f"/sessions/{SESSION}/11",
    "request-compacted": f"/sessions/{SESSION}/13",
    "agents": "/agents",
    "dreams": "/dreams",
    "history": "/history",
    "settings": "/settings",
    "audit": "/audit",
}
AT_360 = ("overview", "memories", "memory", "session", "request-compacted")


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(STAGE, ignore_errors=True)
    settings = demo_settings(STAGE)
    asyncio.run(fill(settings))
    try:
        with console(settings.cwd, demo_environment(STAGE)) as link, chromium() as browser:
            start = link.partition("/enter")[0]
            context = browser.new_context(viewport=SIZE)
            page = context.new_page()
            page.goto(link)
            write_something(page, start)
            for theme in ("light", "dark"):
                context.add_cookies([{"name": "nacre_theme", "value": theme, "url": start}])
                for name, path in PAGES.items():
                    shoot(page, start + path, out / f"{name}-{theme}.png")
            page.set_viewport_size(SMALL)
            context.add_cookies([{"name": "nacre_theme", "value": "light", "url": start}])
            for name in AT_360:
                shoot(page, start + PAGES[name], out / f"{name}-360.png")
    finally:
        shutil.rmtree(STAGE, ignore_errors=True)


def write_something(page: Page, start: str) -> None:
    """Change a memory, so that the audit log has an entry."""
    page.goto(f"{start}/edit/feedback_short_answers.md")
    page.fill("#text", "Answer in at most five sentences; details only when I ask.")
    page.click("button[value=save]")


def shoot(page: Page, address: str, path: Path) -> None:
    page.goto(address)
    page.wait_for_timeout(150)
    height = min(MAX_HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
    width = page.viewport_size["width"] if page.viewport_size else SIZE["width"]
    page.screenshot(path=path, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": height})
    if shutil.which("pngquant"):
        command = ["pngquant", "--force", "--ext", ".png", str(COLOURS), str(path)]
        subprocess.run(command, check=True)
    assert path.stat().st_size <= MAX_BYTES, (
        f"{path} is too large; `apt-get install pngquant` makes it smaller"
    )


if __name__ == "__main__":
    main()
