"""Generations in the database: each step of one is a transaction with its posting, its event and its message."""

from infra.generations.admission import IN_FLIGHT_MAX, admit, preflight
from infra.generations.closing import release, settle
from infra.generations.course import ArtifactContradiction, advance, keep, mark_unknown, request_cancel
from infra.generations.reading import find, find_artifact, open_tasks, readiness
from infra.generations.records import (
    ArtifactRecord,
    ExistingOperation,
    GenerationRecord,
    ModelReadiness,
    Preflight,
    refusal,
)

__all__ = [
    "IN_FLIGHT_MAX",
    "ArtifactContradiction",
    "ArtifactRecord",
    "ExistingOperation",
    "GenerationRecord",
    "ModelReadiness",
    "Preflight",
    "admit",
    "advance",
    "find",
    "find_artifact",
    "keep",
    "mark_unknown",
    "open_tasks",
    "preflight",
    "readiness",
    "refusal",
    "release",
    "request_cancel",
    "settle",
]
