"""pi.compaction: a summary that takes the place of the older part of an agent's context."""
