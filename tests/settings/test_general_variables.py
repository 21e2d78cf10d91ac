"""Every general variable of a runner is honoured, and mistakes in several of them are reported at once, each by its name."""

import pytest

from terracrew.errors import Invalid
from terracrew.settings import layers, variables

ORGANIZATION = "org_" + "2" * 32
GIVEN = {
    "TERRACREW_API_URL": "https://crew.example",
    "TERRACREW_RUNNER_PATH": "spectre/impatient",
    "TERRACREW_SERVICE_ACCOUNT_PATH": "spectre/bot",
    "TERRACREW_SERVICE_DISCOVERY_HOST": "modules.example",
    "TERRACREW_JOB_DISPATCHER_TYPE": "local",
    "TERRACREW_JOB_DISPATCHER_DATA_API_URL": "https://inside.example",
    "TERRACREW_RUNNER__INSTANCE": "one",
    "TERRACREW_RUNNER__ORGANIZATION_ID": ORGANIZATION,
    "TERRACREW_RUNNER__CREDENTIALS__CLIENT_SECRET": "hush",
}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def problems() -> list[str]:
    with pytest.raises(Invalid) as refused:
        layers.load()
    return refused.value.details["problems"]


@pytest.mark.feature("D2.variables")
@pytest.mark.usefixtures("given")
def test_the_general_variables_are_enough_for_a_runner() -> None:
    config = layers.load()
    assert config.server_url == "https://crew.example"
    assert config.runner_path == "spectre/impatient"
    assert config.client_id == f"{ORGANIZATION}:spectre/bot"
    assert config.discovery_host == "modules.example"
    assert (config.dispatcher, config.dispatcher_data) == ("local", {})
    assert config.url_for_executors == "https://inside.example"


@pytest.mark.feature("D2.variables")
def test_every_general_variable_is_in_the_catalogue() -> None:
    helper = ["TERRACREW_CREDENTIAL_HELPER_CMD_PATH", "TERRACREW_CREDENTIAL_HELPER_CMD_ARGS"]
    assert variables.unknown(dict.fromkeys([*GIVEN, *helper], "x")) == []


@pytest.mark.feature("D7.parameters")
def test_malformed_variables_are_named_all_at_once(given: pytest.MonkeyPatch) -> None:
    wrong = {
        "TERRACREW_API_URL": "not an address",
        "TERRACREW_RUNNER_PATH": "Not/A Path",
        "TERRACREW_SERVICE_ACCOUNT_PATH": "//",
        "TERRACREW_SERVICE_DISCOVERY_HOST": "https://modules.example/",
        "TERRACREW_JOB_DISPATCHER_TYPE": "mainframe",
        "TERRACREW_JOB_DISPATCHER_DATA_API_URL": "inside.example",
        "TERRACREW_CREDENTIAL_HELPER_CMD_ARGS": "--aud 'crew",
    }
    for name, value in wrong.items():
        given.setenv(name, value)
    found = problems()
    for name in wrong:
        assert [line for line in found if f"(environment {name})" in line], (name, found)


@pytest.mark.feature("D7.parameters")
def test_a_parameter_that_the_dispatcher_does_not_have_is_named_by_its_variable(given: pytest.MonkeyPatch) -> None:
    given.setenv("TERRACREW_JOB_DISPATCHER_DATA_IMAGE", "executor:1")
    given.setenv("TERRACREW_JOB_DISPATCHER_DATA_API_URL", "http://other.example")
    found = problems()
    assert [line for line in found if "(environment TERRACREW_JOB_DISPATCHER_DATA_IMAGE)" in line], found
    assert [line for line in found if "(environment TERRACREW_JOB_DISPATCHER_DATA_API_URL)" in line], found


@pytest.mark.feature("D7.parameters")
def test_missing_variables_are_named_all_at_once(given: pytest.MonkeyPatch) -> None:
    for name in GIVEN:
        given.delenv(name)
    text = "\n".join(problems())
    for name in ("SERVER__URL", "RUNNER_PATH", "RUNNER__INSTANCE"):
        assert f"TERRACREW_{name}" in text
    assert "a credential is required" in text


@pytest.mark.feature("D7.parameters")
@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("docker", ["IMAGE"]),
        ("kubernetes", ["IMAGE"]),
        ("ecs", ["TASK_DEFINITION", "REGION", "CLUSTER", "LAUNCH_TYPE"]),
    ],
)
def test_missing_parameters_of_a_dispatcher_are_named_by_their_variables(
    given: pytest.MonkeyPatch, kind: str, missing: list[str]
) -> None:
    given.setenv("TERRACREW_JOB_DISPATCHER_TYPE", kind)
    given.setenv("TERRACREW_JOB_DISPATCHERS_FAR_OFF_TYPE", kind)
    text = "\n".join(problems())
    for name in missing:
        assert f"(in the file, or as TERRACREW_JOB_DISPATCHER_DATA_{name})" in text
        assert f"(in the file, or as TERRACREW_JOB_DISPATCHERS_FAR_OFF_DATA_{name})" in text
