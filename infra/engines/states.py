"""What can be seen of a run. Apart from the port, so that an engine process needs nothing else of ours."""

from enum import StrEnum


class RunState(StrEnum):
    """What is seen of a run."""

    ABSENT = "absent"
    """The engine answered, and has never accepted such a run (see `Engine.keeps_records`)."""
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    """The result lies ready to be collected."""
    FAILED = "failed"
    """A definite verdict of the engine."""
    CANCELED = "canceled"
    """Stopped before its end; there is and will be no result."""
    LOST = "lost"
    """Proven dead: the process that had it ended and left no result. It may be submitted again."""
    SILENT = "silent"
    """The engine didn't answer, or not in a way that tells. No evidence of anything."""

    @property
    def is_over(self) -> bool:
        """True when the engine will do nothing more for the run."""
        return self in _OVER

    @property
    def is_alive(self) -> bool:
        """True when the engine said that it has the run and works or will work on it."""
        return self in (RunState.QUEUED, RunState.RUNNING)


_OVER = frozenset({RunState.FINISHED, RunState.FAILED, RunState.CANCELED, RunState.LOST})
