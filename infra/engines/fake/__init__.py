"""The fake engine: a shipped part that fulfils the port and misbehaves by script, for tests and drills."""
