"""The door to the event log: rows, recorders, locks. All of it is synchronous and runs in threads.

Read in this order:

log           what a log promises, whichever recorder keeps it; ``opening``: which one a name stands for
codec         an event as a row, and back
fence         why a commit is refused; ``locks``: who owns a session; ``folder``: the files beside a store
snapshots     what folds have come to, sealed; ``packing``: their states as bytes; ``labels``: whose they are
memory        the log in memory
sqlite        the log in a file; its parts are ``sqlite_schema``, ``sqlite_connections``,
              ``sqlite_append``, ``sqlite_heads``, ``sqlite_reads``, ``sqlite_snapshots``,
              ``sqlite_room`` (what becomes of deleted rows), ``sqlite_recorder``, ``sqlite_errors``
"""
