"""Pulumi keeps the contract of an engine."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from terracrew.errors import Conflict
from terracrew.executor.engines.contract import Engine, EngineSession
from terracrew.executor.engines.pulumi import checkpoint
from terracrew.executor.engines.pulumi.project import BackendFolder
from terracrew.protocol.spec import Step
from terracrew.testing.engine_contract import SECRET_VALUE, EngineContract
from terracrew.testing.engine_run import EngineRun
from terracrew.testing.state_backend import FakeStateBackend
from terracrew.toolchains.discovery import FoundEngine
from tests.contracts.engine import write
from tests.contracts.pulumi_programs import PROJECT, file, program
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
    invalid_reason = 'resource, variable, or config value "absent" not found'
    failing_source = program({"first": file("first"), "second": file("second", needs="first", fail="create")})
    failing_reason = "cannot create the file"

    def held_source(self, pipe: Path) -> Mapping[str, str]:
        second = file("second", needs="first", readLineOf=str(pipe))
        return program({"first": file("first"), "second": second})

    def own_backend(self, folder: Path) -> Mapping[str, str]:
        own = BackendFolder(folder, PROJECT, "terracrew")
        own.place(checkpoint.initial(PROJECT, "terracrew"))
        return {
            "PULUMI_BACKEND_URL": own.url,
            "PULUMI_CONFIG_PASSPHRASE": "one of the test",
            "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
        }

    @pytest.fixture
    def program(self, monkeypatch: pytest.MonkeyPatch) -> FoundEngine:
        found = engines.tested_version("pulumi")
        monkeypatch.setenv("PATH", f"{pulumi_provider.required()}:{os.environ['PATH']}")
        return found

    async def test_a_plan_names_each_resource_with_its_action(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        run = await self._applied(engine, session, folder, backend, self.before_source)
        write(folder, self.changed_source)
        await run.succeed(Step.PLAN)
        summary = await run.summary(backend.states[-1])
        assert sorted((each.address, each.action) for each in summary.resources) == [
            ("testing:index:File::dropped", "delete"),
            ("testing:index:File::firstNew", "create"),
            ("testing:index:File::one", "update"),
            ("testing:index:File::replaced", "replace"),
            ("testing:index:File::secondNew", "create"),
        ]
        assert (summary.existing, summary.unchanged) == (3, 0)

    @pytest.mark.feature("J11.diff")
    async def test_a_preview_is_described_by_property_without_its_secrets(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        hidden = {"fn::secret": SECRET_VALUE}
        before = program(
            {"one": file("one", content="before", secret=hidden), "replaced": file("old"), "dropped": file("dropped")}
        )
        run = await self._applied(engine, session, folder, backend, before)
        changed = {"fn::secret": f"{SECRET_VALUE}, changed"}
        after = {"one": file("one", content="after", secret=changed), "replaced": file("new"), "made": file("made")}
        write(folder, program(after))
        await run.succeed(Step.PLAN)
        diff = await run.diff()
        assert diff is not None
        assert dict(diff.head.counts) == {"create": 1, "update": 1, "delete": 1, "replace": 1}
        found = {each.address.rpartition("::")[2]: each for each in diff.page().resources}
        assert {name: each.action for name, each in found.items()} == {
            "made": "create",
            "one": "update",
            "dropped": "delete",
            "replaced": "replace",
        }
        one = {each.name: (each.before, each.after, each.is_sensitive) for each in found["one"].attributes}
        assert one == {"content": ('"before"', '"after"', False), "secret": (None, None, True)}
        [name] = [each for each in found["replaced"].attributes if each.name == "name"]
        assert (name.before, name.after, name.forces_replacement) == ('"old"', '"new"', True)
        assert '"made"' in [each.after for each in found["made"].attributes]
        assert found["dropped"].why == "Destroyed because it is no longer in the configuration."
        assert SECRET_VALUE not in repr(found) + repr(diff.head)

    async def test_what_was_removed_behind_its_back_is_planned_to_be_made_again(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        run = await self._applied(engine, session, folder, backend, self.source)
        [made] = [each for each in folder.iterdir() if len(each.name) == 16]
        made.unlink()
        await run.succeed(Step.PLAN)
        summary = await run.summary(backend.states[-1])
        assert (summary.add, summary.change, summary.destroy, summary.existing) == (1, 0, 0, 0)
        await run.succeed(Step.APPLY)
        assert len([each for each in folder.iterdir() if len(each.name) == 16]) == 1

    async def test_a_program_that_asks_for_a_value_fails_and_says_which(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        write(folder, program(outputs={"size": "${size}"}, config={"size": {"type": "string"}}))
        code, printed = await EngineRun(engine, session, folder, backend).start(Step.PLAN).ended()
        assert code != 0
        assert "size" in session.failure_details(printed).error, printed

    async def test_the_state_of_another_stack_is_refused(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        write(folder, self.source)
        backend.states.append(checkpoint.initial("another", "terracrew"))
        with pytest.raises(Conflict, match=r"organization/another/terracrew.*organization/contract/terracrew"):
            EngineRun(engine, session, folder, backend).start(Step.PLAN)

    async def _applied(
        self,
        engine: Engine,
        session: EngineSession,
        folder: Path,
        backend: FakeStateBackend,
        source: Mapping[str, str],
    ) -> EngineRun:
        write(folder, source)
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(Step.INIT, Step.PLAN, Step.APPLY)
        return run
