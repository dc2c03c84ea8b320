"""The sweep: where money, workflows and bytes disagree is found, shown, and repaired by rule.

Postgres is the authority. Each step is a function by itself, is safe to repeat and side by side, waits for no
worker, and in a dry run changes nothing. What was found is recorded, once for as long as it lasts.
"""

from infra.sweep.courses import sweep_courses, sweep_workflows
from infra.sweep.credits import sweep_lots
from infra.sweep.findings import OpenCount, open_counts
from infra.sweep.store import sweep_store

__all__ = ["OpenCount", "open_counts", "sweep_courses", "sweep_lots", "sweep_store", "sweep_workflows"]
