"""A home as version 0.1 wrote it: `home_0_1.tar.gz`, and how it was made.

`python -m tests.frozen.home_0_1` makes it anew, which only makes sense with the code of version 0.1.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree

from nacre.testing import Cast, ScriptedProvider, call, say, together
from nacre.tools.guard import PermissionAnswer, PermissionQuestion
from tests.frozen.commands import frozen_time, nacre
from tests.frozen.scenarios import NOTES, STATE, SUMMARISED, SUMMARY, facts, long_text
from tests.frozen.scenes import QUIET, START, Scene, compact, slug, steady, write_plan

ARCHIVE = Path(__file__).with_name("home_0_1.tar.gz")
MADE_AT = Path("/tmp/nacre-frozen-home0001")
"""As long as the path of any other scene, so that one can stand for the other."""
LEFT_OUT = {"locks", "run"}
"""Belongs to the processes of another machine."""
LAST_USED = START + timedelta(days=1, hours=2)
"""An hour after the last session."""
MOST_BYTES = 200_000


def unpack(scene: Scene) -> None:
    """The project and the home, as if they had always been in this scene."""
    old = {str(MADE_AT): str(scene.root), slug(MADE_AT): slug(scene.root)}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            name = member.name
            for before, now in old.items():
                name = name.replace(before, now)
            data = archive.extractfile(member)
            assert data is not None, "there are only files in it"
            content = data.read()
            for before, now in old.items():
                content = content.replace(before.encode(), now.encode())
            path = scene.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(member.mode)
    for log in scene.home.glob("projects/*/*.jsonl"):
        # A session that was opened here has left this; its name holds the path, so that it cannot be packed.
        mark = blake2b(os.fsencode(log), digest_size=4).hexdigest()
        (scene.home / "locks").mkdir(exist_ok=True)
        (scene.home / "locks" / f"{log.stem}-{mark}.lock").touch()
    scene.clock.advance((LAST_USED - scene.clock.now()).total_seconds())
    scene.settle_times()


async def _allow(question: PermissionQuestion) -> PermissionAnswer:
    return "always"


def _make(scene: Scene) -> None:
    """Sessions with a compaction, notes, results and a plan; memories with a history; a team with mail."""
    for name in ("objects", "refs"):
        (scene.work / ".git" / name).mkdir(parents=True)
    (scene.work / ".git" / "HEAD").write_text("ref: refs/heads/trunk\n")
    scene.home.mkdir()
    scene.write("CLAUDE.md", "Answer in one line.\n")
    scene.write("a.py", "def one():\n    return 1\n")
    settings = {
        "maxTurns": 50,
        "permissions": {"allow": ["Bash(git status:*)"], "deny": ["Read(secret/**)"]},
        "switches": {"dream": False},
    }
    (scene.home / "settings.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    for text in ("The person drinks green tea.", "Backups of the orca database run at night."):
        assert nacre(scene, "memory", "save", text).code == 0
    for text in ("Always use tabs.", "Room 12 is ours."):
        assert nacre(scene, "memory", "save", text, "--scope", "user").code == 0
    # As a person may have done it: this history is one pack.
    subprocess.run(["git", "gc", "--quiet"], cwd=scene.home / "history" / "user.git", check=True)
    asyncio.run(_long_session(scene))
    scene.clock.advance(86_400)
    asyncio.run(_session_of_a_team(scene))
    scene.clock.advance(3_600)
    assert nacre(scene, "-p", "remember that I live in Porto").code == 0
    assert nacre(scene, "memory", "forget", "orca", "--yes").code == 0
    assert nacre(scene, "dream", "--force", "--by-rule").code == 0


async def _long_session(scene: Scene) -> None:
    main, notes, summary = ScriptedProvider(), ScriptedProvider(), ScriptedProvider([say(SUMMARISED)])
    tasks = [{"title": "read", "state": "done"}, {"title": "write", "state": "pending"}]
    main.script(call("facts", topic="rivers", lines=600), call("Read", file_path="a.py"))
    main.script(call("TaskList", tasks=tasks), call("Bash", command="touch b.py"))
    main.script(call("Edit", file_path="a.py", old_string="1", new_string="11"), say(long_text(300)))
    environ = {**QUIET, "NACRE_NOTES": "1", "NACRE_NOTES_FIRST_TOKENS": "5000", "NACRE_NOTES_COMPACT": "0"}
    # Asked about every call, so that what is allowed for good is written down.
    environ["NACRE_PERMISSIONS_DEFAULT_MODE"] = "default"
    parts = {NOTES: notes, SUMMARY: summary}
    async with scene.opened(
        scene.settings(environ), provider=Cast(main, parts), ask=_allow, tools=lambda usual: [*usual, facts]
    ) as ready:
        file = ready.agent.session.writer.folder / "session-memory" / "summary.md"  # type: ignore[attr-defined]
        state = f"{STATE}\n\nThe function `one` was changed."
        notes.script(call("Edit", file_path=str(file), old_string=STATE, new_string=state), say("Done."))
        await scene.said(ready, "Look up rivers, read a.py and tell me a story. Never say blue.")
        await write_plan(ready, "1. Read.\n2. Write.\n")
        main.script(say("Go on."), say("Yes."))
        await scene.said(ready, "Look at the plan.")
        await compact(ready)
        await scene.said(ready, "Where were we?")


async def _session_of_a_team(scene: Scene) -> None:
    order = {
        "description": "write a poem",
        "prompt": "You write poems.",
        "name": "poet",
        "team_name": "poets",
    }
    letter = call("SendMessage", to="main", message="Which style?", summary="a question")
    poet = ScriptedProvider([letter, say("I have asked.")], otherwise=say("Roses are red."))
    main = ScriptedProvider([call("Agent", **order), say("It is at work.")], otherwise=say("I see."))
    async with scene.opened(scene.settings(QUIET), provider=Cast(main, {"You write poems.": poet})) as ready:
        await scene.said(ready, "Have a poem written.", "And?")
        main.script(together(call("SendMessage", to="poet", message="Short lines.", summary="an answer")))
        await scene.said(ready, "Answer the poet.")


def _pack(scene: Scene) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(one for one in scene.root.rglob("*") if one.is_file()):
            name = path.relative_to(scene.root)
            if not LEFT_OUT & {*name.parts}:
                entry = tarfile.TarInfo(str(name))
                data = path.read_bytes()
                entry.size, entry.mode = len(data), path.stat().st_mode & 0o777
                archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), compresslevel=9, mtime=0)


def main() -> int:
    rmtree(MADE_AT, ignore_errors=True)
    scene = Scene(MADE_AT)
    try:
        with steady(), frozen_time(scene):
            _make(scene)
        packed = _pack(scene)
    finally:
        rmtree(MADE_AT, ignore_errors=True)
    assert len(packed) < MOST_BYTES, f"{len(packed):,} bytes"
    ARCHIVE.write_bytes(packed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
