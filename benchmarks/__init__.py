"""Measurements of what the runtime costs, beside the least that a hand-written program needs.

Each benchmark is a module with ``measure(options) -> Report``; ``__main__`` lists them.
"""
