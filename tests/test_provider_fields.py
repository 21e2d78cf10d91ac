"""What the provider takes from the API is what the API has."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_fields_of_the_provider_are_those_of_the_api() -> None:
    spec = importlib.util.spec_from_file_location("provider_fields", ROOT / "scripts" / "provider_fields.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "provider" / "fields.go").read_text() == module.text(), "make provider-fields"
