"""The orchestrator's own loops beside its worker: placing, relaying, proving models."""
