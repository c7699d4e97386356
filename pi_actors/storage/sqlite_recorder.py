"""eventsourcing's SQLite recorder on our own connections."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from eventsourcing.persistence import IntegrityError, OperationalError, PersistenceError
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteCursor, SQLiteDatastore

from pi_actors.storage.sqlite_connections import Readers, Writer


def recorder_of(store: Path, writer: Writer, readers: Readers) -> SQLiteApplicationRecorder:
    """The library's recorder of a store that is open; its table is there already."""
    return SQLiteApplicationRecorder(StoreDatastore(store, writer, readers))


class StoreDatastore(SQLiteDatastore):
    """Lends the recorder the store's one writer and its readers; the library's own pool stays empty."""

    def __init__(self, store: Path, writer: Writer, readers: Readers) -> None:
        super().__init__(str(store), originator_id_type="text")
        self._writer = writer
        self._readers = readers

    @contextmanager
    def transaction(self, *, commit: bool) -> Generator[SQLiteCursor]:
        """A transaction of one of the recorder's own methods. Raises the library's errors."""
        try:
            if commit:
                with self._writer.transaction() as cursor:
                    yield _named_columns(cursor)
            else:
                with self._readers.lent() as connection:
                    yield _named_columns(connection.cursor())
        except sqlite3.IntegrityError as error:
            raise IntegrityError(error) from error
        except sqlite3.OperationalError as error:
            raise OperationalError(error) from error
        except sqlite3.Error as error:
            raise PersistenceError(error) from error


def _named_columns(cursor: sqlite3.Cursor) -> SQLiteCursor:
    cursor.row_factory = sqlite3.Row
    return SQLiteCursor(cursor)
