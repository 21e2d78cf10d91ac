"""OpenTofu keeps the contract of an engine."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from terracrew.testing.engine_contract import EngineContract

pytestmark = [pytest.mark.engine, pytest.mark.feature("J4.tofu", "J9.escalation", "J9.reported")]

FIRST = 'resource "terraform_data" "first" {}\n'


def _second(command: str) -> str:
    provisioner = f'provisioner "local-exec" {{ command = "{command}" }}'
    return f'resource "terraform_data" "second" {{\n  depends_on = [terraform_data.first]\n  {provisioner}\n}}\n'


class TestOpenTofu(EngineContract):
    name = "tofu"
    source = {  # noqa: RUF012  # the suite declares it as a class variable
        "main.tf": 'resource "terraform_data" "one" {}\noutput "answer" {\n  value = "42"\n}\n'
    }
    failing_source = {"main.tf": FIRST + _second("exit 7")}  # noqa: RUF012
    failing_reason = "local-exec provisioner error"

    def held_source(self, pipe: Path) -> Mapping[str, str]:
        return {"main.tf": FIRST + _second(f"read line < {pipe}")}
