"""The Compose file for a runner alone. `test_compose.py` starts the one with a server, whose runner is the same."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from terracrew.settings import layers

FOLDER = Path(__file__).parents[2] / "deploy" / "compose"
pytestmark = pytest.mark.feature("D8.compose")


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text())


def test_a_runner_alone_is_confined_like_the_one_beside_a_server() -> None:
    """There was no Compose file for a runner: the only one started a server and PostgreSQL, too."""
    alone, beside = (
        read(FOLDER / "runner" / "compose.yaml"),
        read(FOLDER / "compose.yaml"),
    )
    assert list(alone["services"]) == ["runner"]
    runner, other = alone["services"]["runner"], beside["services"]["runner"]
    assert runner["stop_grace_period"] == "10m"
    assert runner.pop("environment") == {"TERRACREW_RUNNER__STOP_SECONDS": "590"}
    assert runner == {name: value for name, value in other.items() if name not in ("environment", "networks")}
    assert other["environment"]["TERRACREW_RUNNER__STOP_SECONDS"] == "590"
    assert alone["volumes"] == {"runner": {}}


def variables(*, is_federated: bool) -> dict[str, str]:
    """The variables of the example, with the worker token or with what stands there instead of it."""
    text = (FOLDER / "runner" / "runner.env.example").read_text()
    always, _, choice = text.partition("# What `terracrew runner register")
    secret, _, federated = choice.partition("# Or, instead of")
    chosen = federated.replace("# TERRACREW_", "TERRACREW_") if is_federated else secret
    lines = [line for line in (always + chosen).splitlines() if line.startswith("TERRACREW_")]
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("is_federated", [False, True])
def test_the_example_of_its_variables_is_enough(monkeypatch: pytest.MonkeyPatch, is_federated: bool) -> None:
    for name, value in variables(is_federated=is_federated).items():
        monkeypatch.setenv(name, value)
    config = layers.load(None)
    assert (config.server_url, config.runner_path) == ("https://terracrew.example.com", "acme/edge")
    assert config.instance == "edge"
    assert (config.helper is not None) == is_federated
    assert config.client_id == ("acme/runner" if is_federated else "rnr_0192f0c1e5b87c3f9a1d2e4b6c8d0f12")
