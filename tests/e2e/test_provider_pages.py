"""What is generated for the provider is current, and its examples work."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.e2e.provider_workspace import Workspace
from tests.e2e.system import System
from tests.machine import providers

ROOT = Path(__file__).parents[2]
SECRET = "planted-in-an-example"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.feature("K9.generated")
def test_the_fields_of_the_provider_are_those_of_the_api() -> None:
    assert (ROOT / "provider" / "fields.go").read_text() == script("provider_fields").text(), "make provider-fields"


@pytest.mark.feature("K9.generated")
@pytest.mark.engine
def test_the_pages_of_the_provider_are_current() -> None:
    documents = script("provider_docs")
    pages = {each.name: each.read_text() for each in (ROOT / "docs" / "provider").iterdir()}
    assert pages == documents.pages(documents.read_schema(providers.own_mirror())), "make provider-docs"


@pytest.mark.engine
@pytest.mark.timeout(240)
def test_the_examples_of_the_pages_work_together(system: System) -> None:
    system.start_server(runner=True)
    system.module("shared/dns", 'output "zone" {\n  value = "terracrew.example"\n}\n')
    assert system.wait(system.run("shared/dns", "APPLY"))["status"] == "SUCCEEDED"
    system.api.post("/users", {"name": "reader"})
    workspace = Workspace(system)
    examples = sorted((ROOT / "provider" / "examples").iterdir())
    said = workspace.apply(*(each.read_text() for each in examples), TF_VAR_forge_token=SECRET)
    assert 'zone = "terracrew.example"' in said
    assert SECRET not in workspace.state()
    assert workspace.is_up_to_date(TF_VAR_forge_token=SECRET)
