"""Recall without a model opens no socket and starts no process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from datetime import UTC, datetime
from pathlib import Path

def forbid(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "urllib.")):
        raise RuntimeError(event)

sys.addaudithook(forbid)
from nacre.memory.recall.base import RecallQuery
from nacre.memory.recall.local_index import LocalIndex
from nacre.memory.recall.recall import recall

folder = Path(sys.argv[1])
for _ in range(2):
    index = LocalIndex(folder / "memory", folder / "cache")
    found = recall(RecallQuery(text="Where is the signing key kept?", now=datetime.now(UTC)), [index])
    index.close()
print([one.ranked.entry.file for one in found.picks])
try:
    import socket
    socket.socket()
except RuntimeError:
    print("sockets are watched")
"""


def test_no_socket_is_opened_and_no_process_started(tmp_path: Path) -> None:
    """R9: no model, no key and no network."""
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "signing_key.md").write_text(
        "---\nname: Signing key\n---\n\nThe signing key is kept in the safe.\n"
    )
    (memory / "coffee.md").write_text("---\nname: Coffee\n---\n\nThe machine takes beans.\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["['signing_key.md']", "sockets are watched"], done.stderr
