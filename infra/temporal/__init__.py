"""Talking to a Temporal server: connections, what it must be set to, versions, generations."""
