"""The command line, ``pi-actors``.

Read in this order:

commands     what can be typed, and where each command goes
failures     the door to the shell: exit statuses, one clear line instead of a traceback
opening      from options to an open session that has not resumed yet; ``models`` and ``script``: --model
feed         acknowledged commits on their way to a screen
screen       what a person sees of them, on ``paper``; ``json_lines``: what a program does
wording      events in plain words; ``wording_compactions`` and ``summaries``: compactions
running      run and resume;  chat, with ``prompt``;  reading: log and sessions;  replaying: replay
watching     a session seen from outside, in a file or (``watching_server``) over the network
attaching    attach, with ``drawing``, ``keys`` and ``remote_control``;  trees: tree;  serving: serve
demo         three agents are killed at three moments, and all of them finish
"""

import sys


def main() -> None:
    """Run the command line that this process was started with and exit with its status."""
    from io import TextIOWrapper

    from pi_actors.cli.commands import pi_actors
    from pi_actors.cli.failures import status_of

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # What a terminal cannot show must not stop an agent.
            stream.reconfigure(errors="replace")
    sys.exit(status_of(lambda: pi_actors.main(prog_name="pi-actors", standalone_mode=False)))
