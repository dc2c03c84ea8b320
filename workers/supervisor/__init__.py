"""Starts the stack's parts, restarts what dies, stops cleanly. One supervisor a home folder."""
