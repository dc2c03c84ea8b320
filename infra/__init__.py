"""Touches: Postgres, engines, cards, media, the object store, the network, the environment."""
