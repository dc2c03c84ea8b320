"""Pictures as bytes: what they are, whether they decode to their end, what they hold."""
