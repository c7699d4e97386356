"""What users hold: an open store, a session, its agents, their submissions."""

from pi_actors.session.agent import Agent
from pi_actors.session.opening import Store, open_session, open_store
from pi_actors.session.session import Session
from pi_actors.session.subagents import subagent_tools
from pi_actors.session.submission import Submission
from pi_actors.session.values import Answer, SessionInfo, Settled

__all__ = [
    "Agent",
    "Answer",
    "Session",
    "SessionInfo",
    "Settled",
    "Store",
    "Submission",
    "open_session",
    "open_store",
    "subagent_tools",
]
