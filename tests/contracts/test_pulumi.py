"""Pulumi keeps the contract of an engine."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from terracrew.testing.engine_contract import SECRET_VALUE, EngineContract
from terracrew.toolchains.discovery import FoundEngine
from tests.contracts.pulumi_programs import file, program
from tests.machine import engines, pulumi_provider

pytestmark = [
    pytest.mark.engine,
    pytest.mark.other_engine,
    pytest.mark.feature("J4.pulumi", "J9.escalation", "J9.reported", "J11.numbers", "J11.resources", "J15.pulumi"),
]


class TestPulumi(EngineContract):
    name = "pulumi"
    source = program({"one": file("one")}, {"answer": "42"})
    before_source = program(
        {"one": file("one", content="before"), "replaced": file("before"), "dropped": file("dropped")},
        {"answer": "42", "old": "1"},
    )
    changed_source = program(
        {
            "one": file("one", content="after"),
            "replaced": file("after"),
            "firstNew": file("first"),
            "secondNew": file("second"),
        },
        {"answer": "43", "new": "1"},
    )
    changed_counts = {"add": 2, "change": 1, "destroy": 1, "replace": 1}  # noqa: RUF012
    changed_outputs = {"answer": "update", "new": "create", "old": "delete"}  # noqa: RUF012
    secret_source = program(outputs={"secret": {"fn::secret": SECRET_VALUE}})
    invalid_source = program({"one": file("${absent}")})
    invalid_reason = 'resource or variable named "absent" could not be found'
    failing_source = program({"first": file("first"), "second": file("second", needs="first", fail="create")})
    failing_reason = "cannot create the file"

    def held_source(self, pipe: Path) -> Mapping[str, str]:
        second = file("second", needs="first", readLineOf=str(pipe))
        return program({"first": file("first"), "second": second})

    @pytest.fixture
    def program(self, monkeypatch: pytest.MonkeyPatch) -> FoundEngine:
        found = engines.tested_version("pulumi")
        monkeypatch.setenv("PATH", f"{pulumi_provider.folder()}:{os.environ['PATH']}")
        return found
