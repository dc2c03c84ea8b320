"""Runs: processes, wiring, the command line."""
