"""Task queue names; cards have one each, see `ids.card_queue`."""

ORCHESTRATOR = "orchestrator"
"""Generation workflows and their local money steps."""
MEDIA = "media"
"""Inspecting and keeping media."""
DEPLOYMENT = "holdfast"
"""The worker deployment whose versions pin workflows."""
