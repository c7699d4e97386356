"""The test kit: what our own tests are made of, for the tests of programs and kinds built on this.

spec           given/when/then for one decider
session_spec   given/when/then for a whole cascade
crashing       a log that crashes at its n-th commit, and a sweep over every n
checkers       the oracle: what must be true of every log, index and open session
promises       the single promises it consists of
reading        a log as a list, and the state that folding it gives
world          tools with effects that outlive a process
clock          wall time that follows trio's clock, for MockClock

A scripted model is in ``pi_actors.models``.
"""

from pi_actors.testing.checkers import (
    PromiseBroken,
    Witness,
    accepted,
    broken_promises,
    check_log,
    check_session,
)
from pi_actors.testing.clock import TrioClock
from pi_actors.testing.crashing import (
    Crash,
    CrashingLog,
    CrashPoint,
    crash_sweep,
    kill_this_process,
    run_until_crash,
)
from pi_actors.testing.reading import fold_state, read_log
from pi_actors.testing.session_spec import given_session
from pi_actors.testing.spec import at, given
from pi_actors.testing.world import Effect, EffectsFile, check_effects, effect_tools

__all__ = [
    "Crash",
    "CrashPoint",
    "CrashingLog",
    "Effect",
    "EffectsFile",
    "PromiseBroken",
    "TrioClock",
    "Witness",
    "accepted",
    "at",
    "broken_promises",
    "check_effects",
    "check_log",
    "check_session",
    "crash_sweep",
    "effect_tools",
    "fold_state",
    "given",
    "given_session",
    "kill_this_process",
    "read_log",
    "run_until_crash",
]
