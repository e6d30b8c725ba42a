"""Clients that hold connections to a server on loopback.

`python -m tests.integrations.hostile_clients PORT COUNT` prints a line once it has begun, and goes on until
it is killed. A client whose connection was closed connects again after a second.
"""

from __future__ import annotations

import asyncio
import itertools
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2
HEAD = b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n"
RESET = struct.pack("ii", 1, 0)


async def silent() -> AsyncIterator[bytes]:
    yield b""


async def half_a_head() -> AsyncIterator[bytes]:
    yield HEAD


async def one_byte_per_second() -> AsyncIterator[bytes]:
    for letter in itertools.cycle(b"x-slow: a\r\n"):
        yield bytes([letter])
        await asyncio.sleep(1)


async def endless_chunks() -> AsyncIterator[bytes]:
    yield HEAD + b"transfer-encoding: chunked\r\n\r\n"
    while True:
        yield b"400\r\n" + b"x" * 1_024 + b"\r\n"
        await asyncio.sleep(0.1)


async def half_a_body() -> AsyncIterator[bytes]:
    yield HEAD + b"content-length: 1000\r\n\r\n{"


async def large_head() -> AsyncIterator[bytes]:
    yield HEAD + b"x-large: " + b"a" * 5_000_000


async def pipelined_garbage() -> AsyncIterator[bytes]:
    yield b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 50 + bytes(range(256)) * 40


async def tls_hello() -> AsyncIterator[bytes]:
    yield TLS_HELLO


async def reset() -> AsyncIterator[bytes]:
    yield b"GET"
    raise ConnectionResetError


KINDS: tuple[Callable[[], AsyncIterator[bytes]], ...] = (
    half_a_head,
    silent,
    one_byte_per_second,
    half_a_body,
    endless_chunks,
    pipelined_garbage,
    tls_hello,
    reset,
)
RARE = 100
"""Every so many clients one sends a large head."""


async def hold(port: int, kind: Callable[[], AsyncIterator[bytes]]) -> None:
    """Send what a kind of client sends, and wait until the server closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async for sent in kind():
            writer.write(sent)
            await writer.drain()
        while await reader.read(65_536):
            pass
    except ConnectionResetError:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    finally:
        writer.close()


async def attack(port: int, count: int) -> None:
    async def again_and_again(number: int) -> None:
        kind = large_head if number % RARE == RARE - 1 else KINDS[number % len(KINDS)]
        while True:
            with suppress(OSError):
                await hold(port, kind)
            await asyncio.sleep(1)

    clients = [asyncio.create_task(again_and_again(number)) for number in range(count)]
    await asyncio.sleep(0.5)
    print("attacking", flush=True)
    await asyncio.gather(*clients)


@contextmanager
def attacked(port: int, count: int) -> Iterator[None]:
    """Attack a server from another process within the block."""
    command = [sys.executable, "-m", "tests.integrations.hostile_clients", str(port), str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "attacking\n"
        yield
        assert process.poll() is None, "the attack ended early"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(attack(int(sys.argv[1]), int(sys.argv[2])))
