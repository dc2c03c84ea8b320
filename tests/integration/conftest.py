"""Fixtures of the tests against a real Postgres."""

import pytest

from infra.db import Database
from tests.support.generations import Ways


@pytest.fixture
def ways(database: Database) -> Ways:
    """Short ways through this test's database."""
    return Ways(database)
