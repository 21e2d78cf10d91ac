"""The contract suite as it runs on Terracrew's own engines: the modules that engines for HCL configurations are tested with.

`terracrew.testing.engine_contract` has the tests themselves, because authors of plug-ins run them, too. A suite for another
engine (`test_<name>.py`) sets the same class variables to modules of that engine.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.engine_rules import import_blocks
from terracrew.errors import EngineMissing
from terracrew.executor.engines.contract import Engine, EngineContext, EngineSession
from terracrew.protocol.spec import ImportedResource, Step
from terracrew.testing.engine_contract import SECRET_VALUE, EngineContract
from terracrew.testing.engine_run import EngineRun
from terracrew.testing.state_backend import FakeStateBackend
from terracrew.toolchains.discovery import FoundEngine
from tests.machine import providers

FIRST = 'resource "terraform_data" "first" {}\n'
MOVED = """
resource "terraform_data" "new" {}
moved {
  from = terraform_data.first
  to   = terraform_data.new
}
resource "terraform_data" "found" {}
import {
  to = terraform_data.found
  id = "somewhere"
}
"""


def write(folder: Path, source: Mapping[str, str]) -> None:
    for name, text in source.items():
        (folder / name).write_text(text)


def resource(name: str, body: str = "") -> str:
    return f'resource "terraform_data" "{name}" {{\n  {body}\n}}\n'


def output(name: str, value: str, *, is_sensitive: bool = False) -> str:
    return f'output "{name}" {{\n  value = "{value}"\n  sensitive = {str(is_sensitive).lower()}\n}}\n'


def second(command: str) -> str:
    provisioner = f'provisioner "local-exec" {{ command = "{command}" }}'
    return resource("second", f"depends_on = [terraform_data.first]\n  {provisioner}")


def _with_providers(directory: Path, content: str, more: str = "") -> str:
    file = f'directory = "{directory}"\n  name = "web"\n  content = "{content}"\n  {more}'
    return (
        providers.required("testing", "time")
        + 'resource "time_static" "now" {}\n'
        + f'resource "testing_file" "web" {{\n  {file}\n}}\n'
    )


def _described(effect: str, name: str, keys: str) -> str:
    """Return a module whose changes are of many kinds: nested, in JSON, sensitive, and of keys."""
    policy = f'jsonencode({{ Statement = [{{ Effect = "{effect}", Action = "all" }}] }})'
    items = f'[{{ name = "first" }}, {{ name = "{name}" }}]'
    return (
        f'locals {{ password = sensitive("hush-hush-{effect}") }}\n'
        + resource("replaced", f'triggers_replace = ["{name}"]\n  lifecycle {{ create_before_destroy = true }}')
        + resource("each", f"for_each = toset([{keys}])\n  input = each.key")
        + resource("nested", f"input = {{ list = {items}, policy = {policy}, password = local.password }}")
        + 'output "secret" {\n  value = local.password\n  sensitive = true\n}\n'
    )


class HclContract(EngineContract):
    source = {"main.tf": resource("one") + output("answer", "42")}  # noqa: RUF012  # the suite declares class variables
    before_source = {  # noqa: RUF012
        "main.tf": resource("one", 'input = "before"')
        + resource("replaced", 'triggers_replace = "before"')
        + resource("dropped")
        + output("answer", "42")
        + output("old", "1")
    }
    changed_source = {  # noqa: RUF012
        "main.tf": resource("one", 'input = "after"')
        + resource("replaced", 'triggers_replace = "after"')
        + resource("first_new")
        + resource("second_new")
        + output("answer", "43")
        + output("new", "1")
    }
    changed_counts = {"add": 2, "change": 1, "destroy": 1, "replace": 1}  # noqa: RUF012
    changed_outputs = {"answer": "update", "new": "create", "old": "delete"}  # noqa: RUF012
    secret_source = {"main.tf": output("secret", SECRET_VALUE, is_sensitive=True)}  # noqa: RUF012
    invalid_source = {"main.tf": resource("one", "input = var.absent")}  # noqa: RUF012
    invalid_reason = "Reference to undeclared input variable (main.tf:2)"
    failing_source = {"main.tf": FIRST + second("exit 7")}  # noqa: RUF012
    failing_reason = "local-exec provisioner error"

    def held_source(self, pipe: Path) -> Mapping[str, str]:
        return {"main.tf": FIRST + second(f"read line < {pipe}")}

    def own_backend(self, folder: Path) -> Mapping[str, str]:
        return {}  # the local backend, whose file is in the workspace

    async def test_a_plan_names_each_resource_with_its_action_and_its_reason(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        run = await self._applied(engine, session, folder, backend, self.before_source)
        write(folder, self.changed_source)
        await run.succeed(Step.PLAN)
        summary = await run.summary(backend.states[-1])
        assert sorted((each.address, each.action, each.detail) for each in summary.resources) == [
            ("terraform_data.dropped", "delete", "destroyed because it is no longer in the configuration"),
            ("terraform_data.first_new", "create", ""),
            ("terraform_data.one", "update", ""),
            ("terraform_data.replaced", "replace", "replaced because an attribute cannot change in place"),
            ("terraform_data.second_new", "create", ""),
        ]
        assert (summary.existing, summary.unchanged) == (3, 0)

    async def test_imports_and_moves_are_counted_and_named(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        run = await self._applied(engine, session, folder, backend, {"main.tf": FIRST})
        write(folder, {"main.tf": MOVED})
        await run.succeed(Step.PLAN)
        summary = await run.summary(backend.states[-1])
        assert (summary.imports, summary.moves, summary.add, summary.destroy) == (1, 1, 0, 0)
        details = {each.address: each.detail for each in summary.resources}
        assert details["terraform_data.new"] == "moved from terraform_data.first"
        assert details["terraform_data.found"] == "imported from somewhere"
        diff = await run.diff()
        assert diff is not None
        why = {each.address: each.why for each in diff.page().resources}
        assert why == {
            "terraform_data.new": "Moved from `terraform_data.first`.",
            "terraform_data.found": "Imported by the ID `somewhere`.",
        }

    async def test_a_plan_is_described_by_attribute_without_its_sensitive_values(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        run = await self._applied(engine, session, folder, backend, {"main.tf": _described("old", "a", '"x", "y"')})
        write(folder, {"main.tf": _described("new", "b", '"y"')})
        await run.succeed(Step.PLAN)
        diff = await run.diff()
        assert diff is not None
        found = {each.address: each for each in diff.page().resources}
        replaced = found["terraform_data.replaced"]
        assert replaced.why == (
            "Replaced because `triggers_replace` cannot change in place. The new one is created first."
        )
        assert replaced.attributes[0].forces_replacement
        assert any(each.is_unknown for each in replaced.attributes), "its id is known after apply"
        dropped = found['terraform_data.each["x"]']
        assert dropped.why == 'Destroyed because the key `"x"` is no longer in `for_each`.'
        [changed] = [each for each in found["terraform_data.nested"].attributes if each.name == "input"]
        assert [(each.name, each.before, each.after, each.is_sensitive) for each in changed.inside] == [
            ("list[1].name", '"a"', '"b"', False),
            ("password", None, None, True),
            ("policy.Statement[0].Effect", '"old"', '"new"', False),
        ]
        assert "hush-hush" not in repr(found) + repr(diff.head)
        assert [(each.name, each.is_sensitive) for each in diff.head.outputs] == [("secret", True)]

    async def test_a_plan_is_not_applied_to_a_state_that_has_changed_since(
        self, engine: Engine, session: EngineSession, folder: Path, backend: FakeStateBackend
    ) -> None:
        run = await self._applied(engine, session, folder, backend, self.source)
        write(folder, self.changed_source)
        await run.succeed(Step.PLAN)
        saved = backend.states[-1].replace(b'"serial": 1', b'"serial": 7').replace(b'"serial":1', b'"serial":7')
        assert saved != backend.states[-1]
        backend.states.append(saved)
        code, printed = await run.start(Step.APPLY).ended()
        assert code != 0
        assert "stale" in session.failure_details(printed).error.lower()
        assert backend.states[-1] == saved

    async def test_a_version_that_is_too_old_is_refused_with_what_to_do(
        self, engine: Engine, program: FoundEngine, session: EngineSession, folder: Path, tmp_path: Path
    ) -> None:
        old = FoundEngine(engine.name, program.path, "0.13.7")
        context = EngineContext(folder, EngineDirectory(tmp_path / "engine"), tmp_path / "cache", os.environ)
        with pytest.raises(EngineMissing, match=rf"0\.13\.7 .* is too old: .*terracrew engine install {engine.name}"):
            engine.open(old, context)

    async def test_resources_of_real_providers_are_made_changed_and_destroyed(
        self,
        engine: Engine,
        session: EngineSession,
        folder: Path,
        backend: FakeStateBackend,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(providers.configuration(folder.parent)))
        made = folder.parent / "made"
        made.mkdir()
        run = await self._applied(engine, session, folder, backend, {"main.tf": _with_providers(made, "one")})
        assert session.is_ready()
        [file] = made.iterdir()
        assert json.loads(file.read_text()) == {"name": "web", "content": "one"}
        write(folder, {"main.tf": _with_providers(made, "two")})
        await run.succeed(Step.PLAN)
        summary = await run.summary(backend.states[-1])
        assert (summary.add, summary.change, summary.destroy, summary.replace) == (0, 1, 0, 0)
        await run.succeed(Step.APPLY)
        assert json.loads(file.read_text())["content"] == "two"
        await run.succeed(Step.PLAN, is_destroying=True)
        await run.succeed(Step.DESTROY)
        assert list(made.iterdir()) == []

    async def test_a_resource_that_was_made_and_forgotten_is_imported_by_its_id(
        self,
        engine: Engine,
        session: EngineSession,
        folder: Path,
        backend: FakeStateBackend,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(providers.configuration(folder.parent)))
        made = folder.parent / "made"
        made.mkdir()
        lost = made / "00ff00ff00ff00ff"
        lost.write_text('{"name": "web", "content": "one"}')
        imported = f'import {{\n  to = testing_file.web\n  id = "{lost}"\n}}\n'
        write(folder, {"main.tf": _with_providers(made, "one"), "import.tf": imported})
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(Step.INIT, Step.VALIDATE, Step.PLAN)
        assert (await run.summary(None)).imports == 1
        await run.succeed(Step.APPLY)
        assert list(made.iterdir()) == [lost]

    @pytest.mark.feature("J15.lost")
    async def test_what_was_created_in_place_of_something_destroyed_is_imported_and_not_made_again(
        self,
        engine: Engine,
        session: EngineSession,
        folder: Path,
        backend: FakeStateBackend,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """An engine ignores the import block of an address that the state has, although it finds that the resource is gone."""
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(providers.configuration(folder.parent)))
        made = folder.parent / "made"
        made.mkdir()
        run = await self._applied(engine, session, folder, backend, {"main.tf": _with_providers(made, "one")})
        [old] = made.iterdir()
        new = made / "00ff00ff00ff00ff"
        old.rename(new)
        imported = import_blocks.file_text([ImportedResource("testing_file.web", str(new))])
        write(folder, {import_blocks.FILE_NAME: imported})
        backend.states.append(session.without_destroyed(backend.states[-1], {"testing_file.web": str(old)}))
        await run.succeed(Step.PLAN)
        summary = await run.summary(backend.states[-1])
        assert (summary.imports, summary.add, summary.change, summary.destroy, summary.replace) == (1, 0, 0, 0, 0)
        await run.succeed(Step.APPLY)
        assert list(made.iterdir()) == [new]

    @pytest.mark.feature("J15.lost")
    async def test_a_resource_that_cannot_be_imported_is_named(
        self,
        engine: Engine,
        session: EngineSession,
        folder: Path,
        backend: FakeStateBackend,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(providers.configuration(folder.parent)))
        addresses = ["testing_file.web", "testing_file.left[0]"]
        imported = [ImportedResource("testing_file.web", "/does/not/exist ${x}")]
        source = {
            "main.tf": _with_providers(folder.parent, "one"),
            import_blocks.FILE_NAME: import_blocks.file_text(imported),
        }
        write(folder, source)
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(Step.INIT)
        code, printed = await run.start(Step.PLAN).ended()
        assert (code, session.refused_imports(printed, addresses)) == (1, ["testing_file.web"])
        imported = [ImportedResource("testing_file.left[0]", "x")]
        write(folder, {import_blocks.FILE_NAME: import_blocks.file_text(imported)})
        code, printed = await run.start(Step.PLAN).ended()
        assert (code, session.refused_imports(printed, addresses)) == (1, ["testing_file.left[0]"])

    async def test_a_failing_resource_says_why(
        self,
        engine: Engine,
        session: EngineSession,
        folder: Path,
        backend: FakeStateBackend,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(providers.configuration(folder.parent)))
        write(folder, {"main.tf": _with_providers(folder.parent, "one", 'fail = "create"')})
        run = EngineRun(engine, session, folder, backend)
        await run.succeed(Step.INIT, Step.VALIDATE, Step.PLAN)
        code, printed = await run.start(Step.APPLY).ended()
        assert code != 0
        assert session.failure_details(printed).error == "cannot create the file"

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
        await run.succeed(Step.INIT, Step.VALIDATE, Step.PLAN, Step.APPLY)
        return run
