"""Answers: HTTP, authentication, presentation."""
