"""The embedded stack: real Postgres and Temporal from wheels, on free ports, in one folder."""
