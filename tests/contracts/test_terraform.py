"""Terraform 1.5.7 keeps the contract of an engine."""

import pytest

from terracrew.toolchains.discovery import FoundEngine
from tests.contracts.engine import HclContract
from tests.machine import engines

pytestmark = [
    pytest.mark.engine,
    pytest.mark.other_engine,
    pytest.mark.feature("J4.terraform", "J9.escalation", "J9.reported", "J11.numbers", "J11.resources"),
]


class TestTerraform(HclContract):
    name = "terraform"

    @pytest.fixture
    def program(self) -> FoundEngine:
        return engines.tested_version("terraform")
