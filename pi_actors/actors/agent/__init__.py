"""pi.agent: a transcript, an inbox, choices and runs.

Read in this order:

messages     its public words
decider      its rules; ``boundary``: when what waits in the inbox is placed
state        what it remembers, and how each event changes that
transcript   the active context in that state: ids and sizes; ``entries``: what one of them is
context      what a model is sent, made of the entries themselves
compacting   when a context is summarised and how a summary takes its place; ``cut``: where it is cut
"""
