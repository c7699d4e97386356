"""eventsourcing's own test cases, run on the recorders of both logs."""

import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from eventsourcing.persistence import AggregateRecorder, ApplicationRecorder, StoredEvent
from eventsourcing.popo import POPOApplicationRecorder
from eventsourcing.sqlite import SQLiteApplicationRecorder
from eventsourcing.tests import persistence

from pi_actors.storage.memory import MemoryLog, PositionedRecorder
from pi_actors.storage.sqlite import open_sqlite
from pi_actors.storage.sqlite_recorder import StoreDatastore


class InMemory(unittest.TestCase):
    """A new log in memory for each test."""

    def new_originator_id(self) -> str:
        return f"session {uuid4()}"

    def create_recorder(self) -> POPOApplicationRecorder:
        log = MemoryLog()
        self.addCleanup(log.close)
        return log.recorder


class InFile(unittest.TestCase):
    """A new log in a file for each test. "process": the library's cases commit thousands of times."""

    def new_originator_id(self) -> str:
        return f"session {uuid4()}"

    def create_recorder(self) -> SQLiteApplicationRecorder:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        log = open_sqlite(Path(folder.name) / "work.db", "process")
        self.addCleanup(log.close)
        return log.recorder


class UnnumberedInMemory(PositionedRecorder):
    """An aggregate recorder, as the library's case for those wants it, gives no notification ids."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        super().insert_events(stored_events, **kwargs)


class UnnumberedInFile(SQLiteApplicationRecorder):
    """The same on the tables of a store."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        super().insert_events(stored_events, **kwargs)


class TestAggregatesInMemory(InMemory, persistence.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:  # type: ignore[override]  # the narrower case
        return UnnumberedInMemory()


class TestAggregatesInFile(InFile, persistence.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:  # type: ignore[override]  # the narrower case
        datastore = super().create_recorder().datastore
        assert isinstance(datastore, StoreDatastore)
        return UnnumberedInFile(datastore)


class TestApplicationInMemory(InMemory, persistence.ApplicationRecorderTestCase[ApplicationRecorder]):
    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationInFile(InFile, persistence.ApplicationRecorderTestCase[ApplicationRecorder]):
    pass


class TestNotificationsInMemory(InMemory, persistence.NonInterleavingNotificationIDsBaseCase):
    pass


class TestNotificationsInFile(InFile, persistence.NonInterleavingNotificationIDsBaseCase):
    pass
