"""Every setting of a runner works by its name in every layer: in the file, as a variable and as an option."""

import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.cli.main import run as cli
from tests.settings.runner_files import FULL

VALUES: dict[str, Any] = {
    "server.url": "https://one.example",
    "server.allow_plain_http": True,
    "server.discovery_host": "crew.example",
    "runner.id": "rnr_" + "a" * 32,
    "runner.instance": "one-7",
    "runner.organization_id": "org_" + "b" * 32,
    "runner.credentials.client_id": "sac_" + "c" * 32,
    "runner.credentials.client_secret": "another secret",
    "runner.capacity": 7,
    "runner.rotate_worker_token": False,
    "runner.release_key": "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3",
    "runner.stop_seconds": 110.0,
    "runner.idle_seconds": 300.0,
    "runner.max_lifetime_seconds": 86_400.0,
    "runner.notices": "ec2",
    "runner.on_trial": True,
    "working_directory.working_directory": "/srv/crew",
    "working_directory.temp_directory": "/srv/scratch",
    "working_directory.cgroup": "off",
    "engine.additional_binary_paths": ["/opt/engines"],
    "engine.install": "on-demand",
    "executor.isolation": "none",
    "executor.read_paths": ["/srv/read"],
    "executor.write_paths": ["/srv/write"],
    "source.local_roots": ["/srv/sources"],
    "warm_workspaces.max_mb": 10,
    "warm_workspaces.max_age_hours": 1.5,
    "hooks_preapproval.enabled": True,
    "hooks_preapproval.preapproved_hooks_directory": "/usr",
    "job_dispatcher.type": "local",
    "job_dispatcher.data.api_url": "https://executors.example",
    "job_dispatchers.second.type": "local",
    "job_log_stream.batch_size_limit": 7,
    "job_log_stream.period_seconds": 2.5,
    "job_log_stream.eagerly_emit_first_event": False,
    "logging.log_level.terracrew.runner": "Trace",
    "external.timeout_seconds": 7.5,
    "external.vault.address": "https://vault.example:8200",
    "external.vault.allow_plain_http": True,
    "external.vault.ca_file": "/etc/vault.pem",
    "external.vault.namespace": "crew",
    "external.vault.auth": "jwt",
    "external.vault.mount": "ci",
    "external.vault.token": "another secret",
    "external.vault.token_file": "/run/vault.token",
    "external.vault.role": "crew",
    "external.vault.role_id": "crew-id",
    "external.vault.secret_id": "another secret",
    "external.vault.secret_id_file": "/run/secret-id",
    "external.vault.jwt_file": "/run/jwt",
    "external.aws.region": "eu-west-1",
    "external.aws.endpoint_url": "https://aws.example",
    "external.azure.auth": "federated",
    "external.azure.tenant_id": "tenant",
    "external.azure.client_id": "client",
    "external.azure.client_secret": "another secret",
    "external.azure.client_secret_file": "/run/azure-secret",
    "external.azure.federated_token_file": "/run/azure-token",
    "external.azure.authority": "https://login.example",
    "external.azure.metadata_url": "https://metadata.example",
}
"""A value of each setting that is not its default. `T1.paths` and `T1.credentials` have the names that replace others,
and `test_dispatchers.py` those that not every dispatcher has."""
INSTEAD_OF_OTHERS = {
    "runner.path",
    "runner.self_update",
    "executor.user",
    "runner.credentials.service_account_path",
    "runner.credentials.helper",
    "runner.credentials.worker_id",
    "runner.credentials.worker_token",
    *(f"job_dispatcher.allow.{name}" for name in ("images", "max_memory_mb", "max_cpu", "service_accounts")),
}
SECRETS = {
    "runner.credentials.client_secret",
    "external.vault.token",
    "external.vault.secret_id",
    "external.azure.client_secret",
}


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    """Return what `terracrew runner settings` prints, by the name of the setting."""
    code = cli(["runner", "settings", "--json", *arguments])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return {each["name"]: each for each in json.loads(printed.out)}


def nested(name: str, value: Any) -> dict[str, Any]:
    """Return the settings of the smallest file, with this one among them."""
    made: dict[str, Any] = json.loads(json.dumps(FULL))
    at = made
    parts = name.split(".", 2) if name.startswith("logging.") else name.split(".")
    for part in parts[:-1]:
        at = at.setdefault(part, {})
    at[parts[-1]] = value
    return made


def text(value: Any) -> str:
    return ":".join(value) if isinstance(value, list) else json.dumps(value).strip('"')  # pyright: ignore[reportUnknownArgumentType]


@pytest.mark.feature("T1.names", "T2.layers")
@pytest.mark.parametrize("name", VALUES)
def test_a_setting_works_in_the_file_as_a_variable_and_as_an_option(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "(hidden)" if name in SECRETS else VALUES[name]
    file, plain = tmp_path / "with.json", tmp_path / "plain.json"
    file.write_text(json.dumps(nested(name, VALUES[name])))
    plain.write_text(json.dumps(FULL))
    found = shown(capsys, "--config", str(file))[name]
    assert (found["value"], found["origin"]) == (value, f"{file}:1")
    if name not in SECRETS:
        found = shown(capsys, "--config", str(plain), "--set", f"{name}={text(VALUES[name])}")[name]
        assert (found["value"], found["origin"]) == (value, f"option --set {name}")
    variable = f"TERRACREW_{name.upper().replace('.', '__')}"
    monkeypatch.setenv(variable, text(VALUES[name]))
    found = shown(capsys, "--config", str(plain))[name]
    assert (found["value"], found["origin"]) == (value, f"environment {variable}")


@pytest.mark.feature("T1.names")
def test_no_setting_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runner.json"
    file.write_text(json.dumps(FULL))
    names = {
        name
        for name in shown(capsys, "--config", str(file))
        if not name.startswith(("logging.", "job_dispatcher.data", "job_dispatchers", "external.settings"))
    }
    needs_root = {"executor.user"}  # tests/runner/test_engine_users.py gives it
    assert names <= VALUES.keys() | INSTEAD_OF_OTHERS | needs_root
