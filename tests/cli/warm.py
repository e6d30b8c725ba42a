"""A process that has loaded nacre and becomes `nacre ARGS` in a fork, so that not every start loads it anew.

The fork has the descriptors, environment, directory, session and exit of a start; only what is imported was
imported before. Two of these take turns, each with its own order of sets: two starts never agree by luck.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import inspect
import io
import itertools
import json
import os
import pkgutil
import selectors
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

APART = (
    "nacre.integrations",
    "nacre.mcp_client",
    "nacre.integrations.mcp_server",
    "nacre.testing",
    "nacre.tui",
    "nacre.__main__",
)
"""Rooms that load other people's frameworks, or that no command has."""
NEVER = ("readline", "textual", "mcp")
"""Looks at the terminal when it is loaded, or is so big that few starts should have it."""
MOST_BYTES = 1_000_000
SEEDS = ("1", "2")
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_GIVEN = [*inspect.signature(subprocess.Popen._execute_child).parameters][2:]  # type: ignore[attr-defined]
"""What subprocess hands over beside the command, by name: the order is its own affair."""
IS_POSSIBLE = hasattr(os, "pidfd_open") and {*_PIPES, "cwd", "env", "umask", "start_new_session"} <= {*_GIVEN}


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` of `python -m nacre` or `python -c`, forked by a process that has nacre loaded."""

    def __init__(self, args: list[str], *, takes_terminal: bool = False, **how: Any) -> None:
        self._takes_terminal = takes_terminal
        self._told = -1
        super().__init__(args, **how)

    # The three places where subprocess itself starts a process and hears of its end.
    def _execute_child(self, args: list[str], *how: Any) -> None:
        given = dict(zip(_GIVEN, how, strict=True))
        wanted = {
            "args": args, "cwd": str(given["cwd"] or Path.cwd()), "env": given["env"],
            "umask": given["umask"], "leads": given["start_new_session"], "terminal": self._takes_terminal,
        }  # fmt: skip
        ends = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        stdio = [end if end != -1 else number for number, end in enumerate(ends)]
        self._told, telling = os.pipe()
        try:
            self.pid = next(_TURNS).begin(wanted, [*stdio, telling])
        finally:
            os.close(telling)
            self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags == os.WNOHANG and not _has_words(self._told):
            return 0, 0
        words = os.read(self._told, 64)
        os.close(self._told)
        assert words, "the process that starts others has ended"
        return self.pid, int(words)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            ended, status = self._try_wait(os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class Starter:
    """One loaded process and the line to it; started when it is first needed."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._line: socket.socket | None = None
        self._alone = threading.Lock()

    def begin(self, wanted: Mapping[str, object], descriptors: list[int]) -> int:
        with self._alone:
            line = self._line or self._opened()
            socket.send_fds(line, [json.dumps(wanted).encode()], descriptors)
            answer = line.recv(64)
        assert answer, "the process that starts others has ended"
        return int(answer)

    def _opened(self) -> socket.socket:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env={**kept, "HOME": "/nonexistent", "PYTHONUTF8": "1", "PYTHONHASHSEED": self._seed},
            cwd="/", pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        atexit.register(self._ended, process)
        return self._line

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        assert self._line is not None
        self._line.close()
        process.wait(timeout=60)


_TURNS = itertools.cycle([Starter(seed) for seed in SEEDS])


def _has_words(descriptor: int) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _serve(line: socket.socket) -> dict[str, Any] | None:
    """Fork for whoever asks, tell of each end; None when nobody can ask any more, a request in the fork."""
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    selector.unregister(key.fd)
                    _tell_the_end(key.fd, *key.data)
                    continue
                words, descriptors, _, _ = socket.recv_fds(line, MOST_BYTES, 4)
                if not words:
                    return None
                if not (pid := os.fork()):
                    selector.close()
                    _take(descriptors[:3])
                    return cast("dict[str, Any]", json.loads(words))
                for descriptor in descriptors[:3]:
                    os.close(descriptor)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, descriptors[3]))
                line.send(str(pid).encode())


def _tell_the_end(pidfd: int, pid: int, telling: int) -> None:
    _, status = os.waitpid(pid, 0)
    os.write(telling, str(status).encode())
    os.close(telling)
    os.close(pidfd)


def _take(stdio: list[int]) -> None:
    """Have these as stdin, stdout and stderr, and nothing else."""
    for number, descriptor in enumerate(stdio):
        os.dup2(descriptor, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _become(wanted: dict[str, Any]) -> int:
    """Be what Python is when it has just started `-m nacre` there."""
    if wanted["leads"]:
        os.setsid()
    if wanted["umask"] >= 0:
        os.umask(wanted["umask"])
    if wanted["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    time.tzset()
    sys.stdin = sys.__stdin__ = _stream(0, "r", "surrogateescape")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w", "surrogateescape")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace")  # type: ignore[misc]
    sys.path[0] = wanted["cwd"]
    _, kind, what, *rest = wanted["args"]
    if kind == "-c":
        sys.argv = [kind, *rest]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        return 0
    module = importlib.import_module("nacre.__main__")
    sys.argv = [str(module.__file__), *rest]
    return int(module.main())


def _stream(number: int, mode: str, errors: str) -> io.TextIOWrapper:
    stream = open(number, f"{mode}b", closefd=False)  # noqa: SIM115  it is there until the process ends
    is_by_line = number == 2 or os.isatty(number)
    return io.TextIOWrapper(stream, "utf-8", errors, "\n", line_buffering=is_by_line)


def _load() -> None:
    nacre = importlib.import_module("nacre")
    for module in pkgutil.walk_packages(nacre.__path__, "nacre."):
        if not module.name.startswith(APART):
            importlib.import_module(module.name)
    importlib.import_module("anthropic")  # what takes longest
    assert not {*NEVER} & sys.modules.keys(), {*NEVER} & sys.modules.keys()
    assert threading.active_count() == 1, "a fork has no threads"
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    sys.path[0] = "/"
    _load()
    if (found := _serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        sys.exit(_become(found))
