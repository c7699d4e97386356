"""Sessions over HTTP: views as server-sent events, and commands for the sessions of this process.

Read in this order:

serving        opens a server around a body
connections    clients that do not take what they are sent are let go
door           every request passes the ``guard``; whatever goes wrong leaves as JSON, see ``refusals``
routes         what can be asked for; ``answers``: how bodies are read and JSON is said
served         sessions of this process, and sessions that are followed in a store
feed           what viewers are sent, made once for all: ``kept_frames``, ``history``
event_stream   how they are sent it; ``watchers``: what is new to one of them
commands       submit, steer, withdraw, abort, compact
trees, timeline    the ownership tree, the ends of commits
page_files     the page, and whatever else stands in the folder ``page``
"""

from pi_actors.server.connections import Limits
from pi_actors.server.serving import Server, open_server, serve

__all__ = ["Limits", "Server", "open_server", "serve"]
