"""What is left of a log when its process is really killed, or its disk is really full (T8)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from nacre.errors import SessionBusy, TranscriptError
from nacre.store.session_log import SessionLog, log_path
from tests.scale import scaled

APPENDER = """
    import json, sys
    from pathlib import Path
    from nacre.store.session_log import SessionLog

    home, first = Path(sys.argv[1]), int(sys.argv[2])
    path = home / "projects" / "-w" / "s.jsonl"
    log = SessionLog.open(path, home=home) if path.exists() else SessionLog.create(home, "/w", session="s")
    print("open", flush=True)
    number = first
    while True:
        # Now and then a record large enough that the kernel can be interrupted in the middle of it.
        text = "x" * (3_000_000 if number % 7 == 0 else 50)
        log.append(json.dumps({"n": number, "text": text}).encode() + b"\\n", sync=number % 5 == 0)
        number += 1
"""

HOLDER = """
    import sys, time
    from pathlib import Path
    from nacre.store.session_log import SessionLog

    log = SessionLog.open(Path(sys.argv[1]), home=Path(sys.argv[2]))
    print("open", flush=True)
    time.sleep(60)
"""

FULL = """
    import json, resource, signal, sys
    sys.dont_write_bytecode = True  # half a compiled file would break every later process
    from pathlib import Path
    from nacre.errors import TranscriptError
    from nacre.store.session_log import SessionLog

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = SessionLog.create(Path(sys.argv[1]), "/w", session="s")
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
    kept = 0
    while True:
        try:
            log.append(json.dumps({"n": kept, "text": "x" * 900}).encode() + b"\\n")
        except TranscriptError as error:
            print(error)
            break
        kept += 1
    log.append(b'{"n":-1}\\n')
    print(kept)
"""


def started(script: str, *arguments: object) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def numbers(path: Path) -> Iterator[int]:
    content = path.read_bytes()
    assert content == b"" or content.endswith(b"\n")
    return (json.loads(line)["n"] for line in content.splitlines())


@pytest.mark.slow
@pytest.mark.soak
def test_killed_at_twenty_random_moments_a_log_keeps_a_prefix_of_its_records(tmp_path: Path) -> None:
    """T8: nothing torn stays in the log, nothing whole is lost, torn bytes are kept aside."""
    chance = Random(7)
    path = log_path(tmp_path, "/w", "s")
    count = 0
    for turn in range(scaled(20)):
        appender = started(APPENDER, tmp_path, count)
        while not turn and not path.stat().st_size:
            time.sleep(0.001)  # on a busy machine it may take longer to begin than it is let live
        time.sleep(chance.uniform(0, 0.05))
        killed(appender)
        on_disk = path.read_bytes()
        with SessionLog.open(path, home=tmp_path) as log:
            torn = log.repaired.torn_bytes if log.repaired else 0
            aside = log.repaired.kept_in.read_bytes() if log.repaired and log.repaired.kept_in else b""
            assert log.path.read_bytes() + aside in (on_disk, on_disk + b"\n")
            assert len(aside) == torn
        found = list(numbers(path))
        assert found == list(range(len(found)))
        assert len(found) >= count
        count = len(found)
    assert count


def test_a_second_process_is_told_who_holds_the_session_and_may_have_it_after_a_kill(tmp_path: Path) -> None:
    """T8b: the kernel gives the lease up, whatever the holder was doing."""
    with SessionLog.create(tmp_path, "/w", session="s") as log:
        log.append(b'{"n":0}\n')
    holder = started(HOLDER, log.path, tmp_path)
    try:
        with pytest.raises(SessionBusy, match=f"process {holder.pid} on "):
            SessionLog.open(log.path, home=tmp_path)
    finally:
        killed(holder)
    with SessionLog.open(log.path, home=tmp_path) as again:
        assert list(again.read()) == [b'{"n":0}']


def test_a_full_disk_leaves_no_torn_line_and_the_log_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    message, kept = done.stdout.splitlines()
    assert message.startswith("disk full: ")
    assert int(kept) > 5
    assert list(numbers(log_path(tmp_path, "/w", "s"))) == [*range(int(kept)), -1]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a tiny tmpfs needs root")
def test_a_log_on_a_really_full_disk_says_so_and_is_whole(tmp_path: Path) -> None:
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    try:
        with SessionLog.create(tmp_path, "/w", session="s") as log:
            log.append(b'{"n":0}\n')
            with pytest.raises(TranscriptError, match="disk full"):
                log.append(b'{"n":1,"text":"' + b"x" * 200_000 + b'"}\n')
            log.append(b'{"n":2}\n', sync=True)
            assert list(numbers(log.path)) == [0, 2]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
