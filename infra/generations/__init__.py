"""Generations in the database: each step of one is a transaction with its posting, its event and its message."""

from infra.generations.admission import IN_FLIGHT_MAX, admit, answer_duplicate, arrival, preflight
from infra.generations.closing import release, settle
from infra.generations.course import ArtifactContradiction, advance, keep, mark_unknown, request_cancel
from infra.generations.reading import (
    admitted,
    find,
    find_artifact,
    is_open,
    open_generations,
    readiness,
)
from infra.generations.records import (
    Arrival,
    ArtifactRecord,
    ExistingOperation,
    GenerationRecord,
    ModelReadiness,
    OpenGeneration,
    Preflight,
    refusal,
)

__all__ = [
    "IN_FLIGHT_MAX",
    "Arrival",
    "ArtifactContradiction",
    "ArtifactRecord",
    "ExistingOperation",
    "GenerationRecord",
    "ModelReadiness",
    "OpenGeneration",
    "Preflight",
    "admit",
    "admitted",
    "advance",
    "answer_duplicate",
    "arrival",
    "find",
    "find_artifact",
    "is_open",
    "keep",
    "mark_unknown",
    "open_generations",
    "preflight",
    "readiness",
    "refusal",
    "release",
    "request_cancel",
    "settle",
]
