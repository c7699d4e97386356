"""JSON compared as what is sent: true is not 1, and 1 is not 1.0."""

import json

from pi_actors.core.text import Json


def exact(value: Json) -> str:
    """One text for each JSON value, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, allow_nan=False)
