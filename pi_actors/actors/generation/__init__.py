"""pi.generation: one turn, from preparing the request to the last tool result."""
