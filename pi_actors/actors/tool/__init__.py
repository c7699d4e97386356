"""pi.tool: one call of a model. The smallest kind, and the one to read first."""
