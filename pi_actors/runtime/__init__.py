"""The shell around the pure core, on trio. The commit path is told in ``commit_line.py``.

Read in this order:

commit_line     decide, encode, evolve ahead, queue, acknowledge, show
group_commit    one writer for all sessions of a ``store``
errands         run what the shown state owes, and nothing else
opening         the state of a claimed session: its newest snapshot, and the log after it
recovery        take up the runs that were found unfinished
live            one open session: all parts put together, opened and closed

The errands, which share a ``shell``:

asking          those of a generation; ``listening``: what streams; ``bodies``: what entries say
executing       those of a tool; ``reporting``: what it tells on its way
summarising     those of a compaction; ``telling``: a conversation as plain text
stepping        those of custom actors; ``work``: what their code is given, ``owning``: what it may own
progress        how often what streams is stored

A session that lives for months:

snapshots       when a snapshot of the state is taken; ``state_codec``: the state as bytes
passivation     idle agents give up their memory; ``kept``: what of a session is outside memory
scavenging      progress events are deleted once nothing depends on them

What all of it uses: ``registry`` (what this process can execute), ``choices``, ``clock``, ``waiting``,
``threads``, ``scopes``.
"""
