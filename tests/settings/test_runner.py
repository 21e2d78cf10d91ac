"""The settings that a runner has: how it is named, what it authenticates with, and what starts its executors."""

from pathlib import Path
from typing import Any

import pytest

from terracrew import plugins
from terracrew.protocol import limits
from terracrew.runner.config import HelperCommand
from terracrew.settings import layers
from tests.settings.runner_files import FULL, ORGANIZATION, RUNNER, problems_of, write

KEY = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"


def test_isolation_and_the_paths_that_modules_need_are_settings(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, executor={"isolation": "none", "read_paths": ["/srv/mirror"]})
    monkeypatch.setenv("TERRACREW_EXECUTOR__WRITE_PATHS", "/srv/one:/srv/two")
    isolation = layers.load(file).isolation
    assert (isolation.mode, isolation.read_paths) == ("none", ["/srv/mirror"])
    assert isolation.write_paths == ["/srv/one", "/srv/two"]
    write(file, executor={"isolation": "chroot"})
    assert any(
        "executor.isolation" in problem and "must be `landlock` or `none`, not 'chroot'" in problem
        for problem in problems_of(file)
    )


@pytest.mark.feature("D1.chosen", "D2.variables")
@pytest.mark.parametrize("separator", ["__", "_"])
def test_a_dispatcher_of_an_installed_package_is_chosen_and_gets_its_own_settings(
    file: Path, monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    assert (layers.load(file).dispatcher, layers.load(file).dispatcher_data) == ("local", {})
    monkeypatch.setitem(plugins.BUILT_IN[plugins.DISPATCHERS], "theirs", "their_package:PLUGIN")
    monkeypatch.setenv(f"TERRACREW_JOB_DISPATCHER{separator}TYPE", "theirs")
    monkeypatch.setenv(f"TERRACREW_JOB_DISPATCHER{separator}DATA{separator}TASK_DEFINITION", "executor:1")
    monkeypatch.setenv(f"TERRACREW_JOB_DISPATCHER{separator}DATA{separator}API_URL", "https://inside.example")
    loaded = layers.load(file)
    assert (loaded.dispatcher, loaded.dispatcher_data) == ("theirs", {"task_definition": "executor:1"})
    assert (loaded.server_url, loaded.url_for_executors) == ("https://terracrew.example", "https://inside.example")


@pytest.mark.feature("D7.parameters", "T5.unknown")
def test_a_dispatcher_that_is_not_installed_and_data_that_it_does_not_know_are_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TERRACREW_JOB_DISPATCHER_TYPE=nomad passed unnoticed, and `--check` said that the settings were valid."""
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER_DATA_IMAGE", "x")
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER_DATA_API_URL", "http://inside.example")
    assert problems_of(file) == [
        "  job_dispatcher.data.api_url (environment TERRACREW_JOB_DISPATCHER_DATA_API_URL): plain http to another machine "
        "exposes every secret: use https, or set server.allow_plain_http",
        "  job_dispatcher.data.image (environment TERRACREW_JOB_DISPATCHER_DATA_IMAGE): "
        "the dispatcher `local` has no such setting",
    ]
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER_TYPE", "nomad")
    assert problems_of(file)[0].startswith(
        "  job_dispatcher.type (environment TERRACREW_JOB_DISPATCHER_TYPE): there is no dispatcher 'nomad' here; "
    )


@pytest.mark.feature("A2.exchange", "T1.credentials")
def test_a_worker_id_and_token_stand_for_a_client_id_and_secret(file: Path) -> None:
    write(file, runner={**FULL["runner"], "credentials": {"worker_id": "rnr_9", "worker_token": "wt"}})
    config = layers.load(file)
    assert (config.client_id, config.client_secret) == (f"{ORGANIZATION}:rnr_9", "wt")


@pytest.mark.feature("T1.credentials")
def test_the_credentials_of_a_shared_runner_have_no_organization(file: Path) -> None:
    write(file, runner={**FULL["runner"], "organization_id": "shared"})
    assert layers.load(file).client_id == "sac_3"


@pytest.mark.feature("A1.prefix", "T1.credentials")
def test_a_client_id_may_have_its_organization_before_it_as_it_is_printed(file: Path) -> None:
    """The runner put the organization before it a second time, and was refused for ever: "this credential is not valid"."""
    for client_id in (f"{ORGANIZATION}:sac_3", "sac_3"):
        write(file, runner={**FULL["runner"], "credentials": {"client_id": client_id, "client_secret": "s"}})
        assert layers.load(file).client_id == f"{ORGANIZATION}:sac_3"
    other = "org_" + "7" * 32
    write(file, runner={**FULL["runner"], "credentials": {"client_id": f"{other}:sac_3", "client_secret": "s"}})
    (problem,) = problems_of(file)
    assert f"it is of the organization {other}, and runner.organization_id is another one" in problem


@pytest.mark.feature("D2.variables", "T1.paths")
def test_a_runner_and_its_service_account_can_be_named_by_path(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, runner={"instance": "one", "organization_id": ORGANIZATION, "credentials": {"client_secret": "s"}})
    monkeypatch.setenv("TERRACREW_RUNNER_PATH", "spectre/spaceship/impatient")
    monkeypatch.setenv("TERRACREW_SERVICE_ACCOUNT_PATH", "spectre/bot")
    config = layers.load(file)
    assert (config.runner_id, config.runner_path) == ("", "spectre/spaceship/impatient")
    assert (config.client_id, config.client_secret) == (f"{ORGANIZATION}:spectre/bot", "s")
    monkeypatch.setenv("TERRACREW_RUNNER__ID", RUNNER)
    monkeypatch.setenv("TERRACREW_SERVICE_ACCOUNT_PATH", "Spectre/../bot")
    problems = problems_of(file)
    assert problems[0].startswith(
        "  runner.credentials.service_account_path (environment TERRACREW_SERVICE_ACCOUNT_PATH): 'Spectre/../bot' is not"
    )
    assert problems[1] == (
        "  runner.path (environment TERRACREW_RUNNER_PATH): give the runner's id or its path, not both"
    )


@pytest.mark.feature("D2.variables", "T1.paths", "T1.required")
def test_the_general_variables_are_all_that_a_runner_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were refused: runner.instance and runner.organization_id were required, too."""
    for name, value in {
        "API_URL": "https://crew.example:8000",
        "RUNNER_PATH": "my-group/my-runner-name",
        "SERVICE_ACCOUNT_PATH": "my-group/my-service-account-name",
        "CREDENTIAL_HELPER_CMD_PATH": "/opt/credhelpers/aws",
        "CREDENTIAL_HELPER_CMD_ARGS": "-region=us-east-2 -endpoint=https://my-oidc-provider.example -aud=terracrew",
        "SERVICE_DISCOVERY_HOST": "my-service-discovery-host",
        "JOB_DISPATCHER_TYPE": "local",
        "JOB_DISPATCHER_DATA_API_URL": "https://crew.example:8000",
    }.items():
        monkeypatch.setenv(f"TERRACREW_{name}", value)
    config = layers.load(None)
    assert (config.runner_path, config.instance) == ("my-group/my-runner-name", "my-runner-name")
    assert (config.client_id, config.client_secret) == ("my-group/my-service-account-name", "")
    monkeypatch.setenv("TERRACREW_RUNNER__INSTANCE", "one")
    monkeypatch.setenv("TERRACREW_RUNNER__ORGANIZATION_ID", ORGANIZATION)
    config = layers.load(None)
    assert (config.instance, config.client_id) == ("one", f"{ORGANIZATION}:my-group/my-service-account-name")


@pytest.mark.feature("T5.values")
@pytest.mark.parametrize(
    ("credentials", "words"),
    [
        ({"client_id": "c"}, "there is client_id: give"),
        (
            {"client_id": "c", "client_secret": "s", "worker_id": "w"},
            "there is client_id and client_secret and worker_id:",
        ),
        (
            {"client_id": "c", "service_account_path": "a", "client_secret": "s"},
            "there is client_id and client_secret and",
        ),
        ({}, "a credential is required: give client_id or service_account_path with"),
        ({"helper": {"command": "/x"}}, "there is helper: give client_id or service_account_path with"),
        (
            {"client_id": "c", "client_secret": "s", "helper": {"command": "/x"}},
            "there is client_id and client_secret and helper:",
        ),
    ],
)
def test_credentials_that_are_not_one_pair_are_refused(file: Path, credentials: dict[str, Any], words: str) -> None:
    write(file, runner={**FULL["runner"], "credentials": credentials})
    (problem,) = problems_of(file)
    assert words in problem


@pytest.mark.feature("T1.helper", "D2.variables")
def test_a_credential_helper_stands_for_a_secret(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, runner={**FULL["runner"], "credentials": {"client_id": "sac_3"}})
    monkeypatch.setenv("TERRACREW_CREDENTIAL_HELPER_CMD_PATH", "/opt/credhelpers/aws")
    monkeypatch.setenv("TERRACREW_CREDENTIAL_HELPER_CMD_ARGS", "-region eu-1 -aud 'a b,c' $HOME")
    config = layers.load(file)
    assert config.helper == HelperCommand("/opt/credhelpers/aws", ["-region", "eu-1", "-aud", "a b,c", "$HOME"], 30.0)
    assert (config.client_id, config.client_secret) == (f"{ORGANIZATION}:sac_3", "")
    monkeypatch.setenv("TERRACREW_CREDENTIAL_HELPER_CMD_ARGS", '["-aud", ""]')
    found = layers.load(file).helper
    assert found is not None
    assert found.arguments == ["-aud", ""]
    monkeypatch.setenv("TERRACREW_CREDENTIAL_HELPER_CMD_PATH", "credhelpers/aws")
    (problem,) = problems_of(file)
    assert "is not an absolute path" in problem


@pytest.mark.feature("J13.discovery", "T5.values")
def test_the_service_discovery_host_is_a_host(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERRACREW_SERVICE_DISCOVERY_HOST", "crew.example:8443")
    assert layers.load(file).discovery_host == "crew.example:8443"
    for wrong in ("https://crew.example", "crew.example/path", "user@crew.example", "crew.example:x", "a b", ":80"):
        monkeypatch.setenv("TERRACREW_SERVICE_DISCOVERY_HOST", wrong)
        (problem,) = problems_of(file)
        assert "(environment TERRACREW_SERVICE_DISCOVERY_HOST)" in problem
        assert "is not a host" in problem


@pytest.mark.feature("T1.required", "T5.values")
def test_an_instance_has_a_name_that_the_hub_accepts(file: Path) -> None:
    """Names of 101 to 128 characters passed the settings, and the hub refused them."""
    longest = "n" * limits.MAX_INSTANCE_NAME_CHARACTERS
    assert layers.load(file, {"runner.instance": longest}).instance == longest
    for wrong in (longest + "n", "  ", "a\tb", ""):
        (problem,) = problems_of(file, **{"runner.instance": wrong})
        assert problem.startswith("  runner.instance (option --set runner.instance): "), wrong
    (problem,) = problems_of(file, **{"runner.capacity": limits.MAX_CAPACITY + 1})
    assert problem.startswith("  runner.capacity (option --set runner.capacity): ")


@pytest.mark.feature("T1.names")
def test_settings_of_hooks_are_checked(file: Path, tmp_path: Path) -> None:
    write(file, hooks_preapproval={"enabled": True, "preapproved_hooks_directory": str(tmp_path)})
    layers.load(file)
    write(file, hooks_preapproval={"enabled": True})  # no directory: no hook may run
    layers.load(file)
    write(file, hooks_preapproval={"enabled": True, "preapproved_hooks_directory": str(tmp_path / "none")})
    (problem,) = problems_of(file)
    assert problem.startswith(f"  hooks_preapproval.preapproved_hooks_directory ({file}:16): ")
    assert "is not a directory, and pre-approval of hooks is enabled" in problem


@pytest.mark.feature("V3.update")
def test_a_runner_updates_itself_only_with_a_key_for_releases(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not layers.load(file).updates_itself
    monkeypatch.setenv("TERRACREW_RUNNER__SELF_UPDATE", "true")
    assert problems_of(file) == [
        "  runner.release_key: is required with runner.self_update (in the file, or as TERRACREW_RUNNER_RELEASE_KEY)"
    ]
    monkeypatch.setenv("TERRACREW_RUNNER_RELEASE_KEY", "RWQ")
    assert "runner.release_key (environment TERRACREW_RUNNER_RELEASE_KEY)" in problems_of(file)[0]
    monkeypatch.setenv("TERRACREW_RUNNER_RELEASE_KEY", KEY)
    loaded = layers.load(file)
    assert (loaded.updates_itself, loaded.release_key) == (True, KEY)
