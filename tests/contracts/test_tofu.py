"""OpenTofu keeps the contract of an engine."""

import pytest

from tests.contracts.engine import HclContract

pytestmark = [
    pytest.mark.engine,
    pytest.mark.feature("J4.tofu", "J9.escalation", "J9.reported", "J11.numbers", "J11.resources"),
]


class TestOpenTofu(HclContract):
    name = "tofu"
