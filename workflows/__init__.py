"""Decides. No clock, chance, environment, file or socket of its own; see docs/explanation/rooms.md."""
