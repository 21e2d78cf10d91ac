"""OpenTofu keeps the contract of an engine."""

import pytest

from terracrew.testing.engine_contract import EngineContract

pytestmark = pytest.mark.engine


class TestOpenTofu(EngineContract):
    name = "tofu"
    source = {  # noqa: RUF012  # the suite declares it as a class variable
        "main.tf": 'resource "terraform_data" "one" {}\noutput "answer" {\n  value = "42"\n}\n'
    }
    state_file = "terraform.tfstate"
