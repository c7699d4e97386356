"""The kinds of users: one decider for all of them, which knows states only as bytes."""
