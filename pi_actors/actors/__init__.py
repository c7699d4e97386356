"""The actor kinds. Each folder has ``messages.py`` (its public words) and ``decider.py`` (its rules)."""
