"""Engines behind one port: what runs a model, in a process of its own."""
