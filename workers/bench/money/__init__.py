"""The ledger under a long run of random steps: a model of what should be true, and a machine that compares."""
