"""The shell around the pure core, on trio. The commit path is told in ``commit_line.py``.

commit_line   decide, encode, evolve ahead, queue, acknowledge, show
group_commit  one writer for all sessions of a store
errands       run what the shown state owes, and nothing else
opening       claim a session and fold its log
recovery      take up the runs that were found unfinished
asking        the errands of a generation
executing     the errands of a tool
"""
