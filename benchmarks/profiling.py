"""Where the time of one thread went."""

import cProfile
import io
import pstats
from typing import Final

LINES: Final = 25


def largest_costs(title: str, profile: cProfile.Profile) -> str:
    """The functions with the most time of their own, as a table under *title*.

    The profiler makes calls of Python functions dearer than they are; compare, do not add up.
    """
    text = io.StringIO()
    statistics = pstats.Stats(profile, stream=text).strip_dirs().sort_stats("tottime")
    statistics.print_stats(LINES)
    lines = [line for line in text.getvalue().splitlines() if line.strip()]
    return "\n".join([title, *lines])
