"""A table whose every change is noted, and what a capture of it must look like."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import psycopg

from tests.unit.pipelines.cdc.conftest import Database

Event = tuple[str, str | None]  # operation, and the value behind it: None where the row is gone
CREATE = "CREATE TABLE item (id int PRIMARY KEY, value text NOT NULL, ballast text)"


@dataclass(kw_only=True)
class Ledger:
    """Makes changes to the table `item`, and keeps for each key what was committed."""

    database: Database
    chance: random.Random
    keys: int = 20
    history: dict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))
    number: int = 0

    def change(self, transactions: int = 1) -> None:
        """Run some transactions of one to five changes, one in ten rolled back."""
        with self.database.connect() as connection:
            for _ in range(transactions):
                done: list[tuple[int, Event]] = []
                with connection.transaction(force_rollback=self.chance.random() < 0.1) as transaction:
                    for _ in range(self.chance.randint(1, 5)):
                        done.append(self._one(connection, done))
                if not transaction.force_rollback:
                    for key, event in done:
                        self.history[key].append(event)

    def _one(
        self, connection: "psycopg.Connection[tuple[object, ...]]", done: list[tuple[int, Event]]
    ) -> tuple[int, Event]:
        key = self.chance.randrange(self.keys)
        events = self.history[key] + [event for other, event in done if other == key]
        self.number += 1
        value = f"v{self.number}"
        if not events or events[-1][1] is None:
            ballast = "x" * self.chance.choice([0, 10])
            connection.execute("INSERT INTO item VALUES (%s, %s, %s)", [key, value, ballast])
            return key, ("c", value)
        if self.chance.random() < 0.3:
            connection.execute("DELETE FROM item WHERE id = %s", [key])
            return key, ("d", None)
        connection.execute("UPDATE item SET value = %s WHERE id = %s", [value, key])
        return key, ("u", value)

    def table(self) -> dict[int, str]:
        """Return what the table holds."""
        return {key: value for key, value in self.database.rows("SELECT id, value FROM item")}

    def check(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Assert that records, in a key's order, are the table's changes: each once, after one read of what was there.

        Tombstones have to follow deletes. Keeping the last value of each key gives the table.
        """
        seen: dict[int, list[Event | None]] = defaultdict(list)
        kept: dict[int, str] = {}
        for key, value in records:
            assert key is not None
            number = json.loads(key)["id"]
            if value is None:
                assert seen[number][-1] == ("d", None), f"a tombstone of {number} without its delete"
                kept.pop(number, None)
                continue
            event = json.loads(value)
            after = event["after"]
            seen[number].append((event["op"], after["value"] if after else None))
            if after:
                kept[number] = after["value"]
        assert set(seen) <= set(self.history)
        for key, history in self.history.items():
            self._check_key(key, history, seen.get(key, []))
        assert kept == self.table()

    def _check_key(self, key: int, history: list[Event], seen: list[Event | None]) -> None:
        changes = seen[1:] if seen and seen[0] and seen[0][0] == "r" else seen
        before = history[: len(history) - len(changes)]
        assert history[len(before) :] == changes, f"key {key}: committed {history}, captured {seen}"
        state = before[-1][1] if before else None
        read = seen[0][1] if len(changes) < len(seen) and seen[0] else None
        assert state == read, f"key {key}: the snapshot has {read}, committed were {history}, captured {seen}"
