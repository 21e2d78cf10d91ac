"""Which settings are printed: text is hidden unless its setting is listed as harmless."""

from pathlib import Path
from typing import Any, Literal, get_origin

import pytest

from terracrew import plugins
from terracrew.settings import layers
from terracrew.settings.effective import effective
from terracrew.settings.names import is_shown, kinds_of_field, settings_of
from terracrew.settings.runner import RunnerProcessSettings
from terracrew.settings.server import ServerSettings
from terracrew.settings.shared_runners import BuiltInRunner, RemoteRunner
from tests.settings.runner_files import write


def _is_text(kind: Any) -> bool:
    return kind not in (bool, int, float) and get_origin(kind) is not Literal


@pytest.mark.feature("T2.shown")
def test_values_that_a_dispatcher_gets_are_hidden_unless_they_are_known_to_be_harmless(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`registry_auth_blob` was printed, because its name did not look like that of a secret."""
    monkeypatch.setitem(plugins.BUILT_IN[plugins.DISPATCHERS], "theirs", "their_package:PLUGIN")
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER_TYPE", "theirs")
    for name, value in (("IMAGE", "executor:1"), ("BLOB", "hush"), ("REGISTRY_USERNAME", "hush"), ("X", "")):
        monkeypatch.setenv(f"TERRACREW_JOB_DISPATCHER_DATA_{name}", value)
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER_DATA_HOST", "tcp://me:hush@docker.example:2376")
    write(file, job_dispatcher={"data": {"blob": "hush too"}})
    found = {each.name.removeprefix("job_dispatcher.data."): each for each in effective(layers.merged(file))}
    assert (found["image"].value, found["host"].value) == ("executor:1", "tcp://me:(hidden)@docker.example:2376")
    assert (found["blob"].value, found["registry_username"].value) == ("(hidden)", "(hidden)")
    assert [each.value for each in found["blob"].overrides] == ["(hidden)"]
    assert not [each for each in found.values() if "hush" in str(each)]


@pytest.mark.feature("T2.shown")
def test_a_value_of_a_lower_layer_that_is_no_number_is_not_repeated(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRACREW_RUNNER__CAPACITY", "tcw_hush")
    monkeypatch.setenv("TERRACREW_URL", "https://me:hush@terracrew.example")
    merged = layers.merged(file, {"runner.capacity": "3", "server.url": "https://x.example"})
    found = {each.name: each for each in effective(merged)}
    assert found["runner.capacity"].overrides[0].value == "(hidden)"
    assert found["server.url"].overrides[0].value == "https://me:(hidden)@terracrew.example"


@pytest.mark.feature("T2.shown")
def test_every_setting_with_text_is_a_secret_or_listed_as_harmless() -> None:
    """A new setting is hidden until somebody decides that it is harmless."""
    models = (RunnerProcessSettings, ServerSettings, BuiltInRunner, RemoteRunner)
    named = [(model, path, field) for model in models for path, field in settings_of(model)]
    texts = [
        (model, path) for model, path, field in named if any(_is_text(kind.type) for kind in kinds_of_field(field))
    ]
    hidden = {".".join(path) for model, path in texts if not is_shown(model, path)}
    assert hidden == {
        "runner.credentials.client_secret",
        "runner.credentials.worker_token",
        "runner.credentials.helper.args",
        "job_dispatcher.data",
        "job_dispatchers",
        "shared_runners",
        "master_key",
        "smtp_password",
        "external.vault.token",
        "external.vault.secret_id",
        "external.azure.client_secret",
    }
