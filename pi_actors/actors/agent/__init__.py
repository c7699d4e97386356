"""pi.agent: a transcript, an inbox, choices and runs."""
