"""A member that works until nothing is left: `python claiming.py FOLDER OWNER` claims, notes, completes.

Each claim is one line in FOLDER/OWNER.claims, on disk before the work is called done.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from nacre.agents.team_tasks import TeamTasks
from nacre.errors import MailError


def work(folder: Path, owner: str) -> None:
    """Until every task is completed, by whomever."""
    tasks = TeamTasks(folder)
    with (folder.parent / f"{owner}.claims").open("a", encoding="utf-8") as notes:
        while any(task.state != "completed" for task in tasks.list().tasks):
            try:
                task = tasks.claim(None, owner)
            except MailError as error:
                if "no task is free" not in str(error):
                    raise
                time.sleep(0.02)
                continue
            notes.write(f"{task.id}\n")
            notes.flush()
            os.fsync(notes.fileno())
            tasks.complete(task.id, owner)


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2])
