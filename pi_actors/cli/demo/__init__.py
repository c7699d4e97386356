"""The demo: an agent is killed with SIGKILL at three moments, and each time a new process finishes.

project      the scratch project that the agent works in
story        the task, and what the scripted model says to it
child        the process that is killed, and the one that goes on: one and the same program
checks       what must hold after each act
acts         the play: start, kill, start again, tell, check
"""
