"""The engine's process writes failure codes as text; each must be one of the contract's."""

import pytest

from infra.engines.native.networks import NetworkMissing
from infra.engines.native.picture import PictureBroken
from infra.engines.native.runs import _failure
from workflows.contracts.failures import Code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PictureBroken("x"), Code.INVALID_MEDIA),
        (MemoryError("x"), Code.OUT_OF_MEMORY),
        (NetworkMissing("x"), Code.NOT_CONFIGURED),
        (FileNotFoundError("x"), Code.UPSTREAM_FAILED),
        (OSError("x"), Code.SERVICE_UNAVAILABLE),
        (ValueError("x"), Code.UPSTREAM_FAILED),
    ],
)
def test_each_error_becomes_a_code_of_the_contract(error: Exception, code: Code) -> None:
    assert Code(_failure(error).code) is code
