"""Adapts: one retryable, idempotent step each, thin around `infra`."""
