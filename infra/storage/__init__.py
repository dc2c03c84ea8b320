"""Bytes by their SHA-256: the store, its signed addresses, and the rows that say who needs which."""
