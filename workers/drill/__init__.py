"""Drills: the platform is broken on purpose, in a stack of its own, and has to end right."""
