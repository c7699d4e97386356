"""The pure core: data, deciders and the commit that runs messages to rest.

Nothing here reads a clock, draws a random number, touches a file or starts a task.
"""
