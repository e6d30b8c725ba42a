"""The rows of the letters to one session of a user; calls block, as those of an inbox on disk do (A3)."""

from __future__ import annotations

from nacre.store.postgres.database import Database


class LetterRows:
    """The letters in one inbox."""

    def __init__(self, database: Database, tenant: str, user: str, inbox: str) -> None:
        self._database = database
        self._tenant = tenant
        self._key = (user, inbox)

    def put(self, id_: str, line: str) -> None:
        """Add a letter; one with this id that is there stays."""
        with self._database.blocking_transaction(self._tenant) as connection:
            # Letters become visible in the order of their numbers, so that a cursor passes none.
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))",
                ["\n".join((self._tenant, *self._key))],
            )
            connection.execute(
                "INSERT INTO nacre.letters (tenant, user_name, inbox, id, letter) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                [self._tenant, *self._key, id_, line],
            )

    def waiting(self, limit: int) -> list[tuple[int, str]]:
        """Return number and line of the letters that were not received, in order."""
        with self._database.blocking_transaction(self._tenant) as connection:
            return connection.execute(
                "SELECT seq, letter FROM nacre.letters WHERE user_name = %s AND inbox = %s"
                " AND received IS NULL ORDER BY seq LIMIT %s",
                [*self._key, limit],
            ).fetchall()

    def newest(self) -> int:
        """Return the number of the last letter; 0 if there is none."""
        with self._database.blocking_transaction(self._tenant) as connection:
            [[number]] = connection.execute(
                "SELECT coalesce(max(seq), 0) FROM nacre.letters WHERE user_name = %s AND inbox = %s",
                [*self._key],
            ).fetchall()
        return int(number)

    def settle(self, number: int) -> bool:
        """Mark letters up to a number as received; False if no letter of this inbox has it."""
        with self._database.blocking_transaction(self._tenant) as connection:
            done = connection.execute(
                "UPDATE nacre.letters SET received = now() WHERE user_name = %s AND inbox = %s"
                " AND received IS NULL AND seq <= %s AND EXISTS"
                " (SELECT 1 FROM nacre.letters WHERE user_name = %s AND inbox = %s AND seq = %s)",
                [*self._key, number, *self._key, number],
            )
            return done.rowcount > 0
