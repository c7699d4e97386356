"""The door to the event log: rows, recorders, locks. All of it is synchronous and runs in threads."""
