"""The settings of the dispatchers of a runner: further ones by name, and what jobs may ask each of them for."""

from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.protocol.dispatcher_choice import AllowedChoices
from terracrew.runner.config import NamedDispatcher
from terracrew.settings import effective, layers, variables
from tests.settings.runner_files import write

pytestmark = pytest.mark.feature("D1.asked", "D2.variables")

_PREFIX = "TERRACREW_JOB_DISPATCHERS_"


def test_further_dispatchers_are_read_from_the_file(tmp_path: Path) -> None:
    file = write(
        tmp_path / "r.json",
        job_dispatcher={"type": "docker", "data": {"image": "executor:1"}, "allow": {"images": ["team/*"]}},
        job_dispatchers={
            "here": {"type": "local"},
            "big": {
                "type": "docker",
                "data": {"image": "executor:2", "api_url": "https://inside.example"},
                "allow": {"images": ["registry.example/**"], "max_memory_mb": 4096, "max_cpu": 2},
            },
        },
    )
    config = layers.load(file)
    assert config.dispatcher_allows == AllowedChoices(["team/*"])
    allows = AllowedChoices(["registry.example/**"], 4096, 2.0)
    assert config.named_dispatchers == [
        NamedDispatcher("here", "local"),
        NamedDispatcher("big", "docker", {"image": "executor:2"}, allows, "https://inside.example"),
    ]


def test_further_dispatchers_are_read_from_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{_PREFIX}VERY_BIG_TYPE", "docker")
    monkeypatch.setenv(f"{_PREFIX}VERY_BIG_DATA_IMAGE", "executor:2")
    monkeypatch.setenv(f"{_PREFIX}VERY_BIG_DATA_REGISTRY_USERNAME", "me")
    monkeypatch.setenv(f"{_PREFIX}VERY_BIG_DATA_REGISTRY_PASSWORD", "hush")
    monkeypatch.setenv(f"{_PREFIX}VERY_BIG_ALLOW_IMAGES", "team/*, other/**")
    monkeypatch.setenv(f"{_PREFIX}VERY_BIG_ALLOW_MAX_CPU", "1.5")
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHERS__SECOND__TYPE", "local")
    found = {each.name: each for each in layers.load(write(tmp_path / "r.json")).named_dispatchers}
    assert found["second"] == NamedDispatcher("second", "local")
    big = found["very-big"]
    assert big.allows == AllowedChoices(["team/*", "other/**"], max_cpu=1.5)
    assert big.data == {"image": "executor:2", "registry_username": "me", "registry_password": "hush"}
    assert "hush" not in repr(big)


def test_everything_that_is_wrong_is_reported_at_once_with_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {
        "BIG_TYPE": "docker",
        "BIG_DATA_MEMORY_LIMIT": "lots",
        "BIG_ALLOW_SERVICE_ACCOUNTS": "deploy",
        "HERE_TYPE": "local",
        "HERE_ALLOW_IMAGES": "team/*",
        "HERE_DATA_IMAGE": "executor:1",
        "DOCKER_TYPE": "local",
        "DEFAULT_TYPE": "local",
        "FAR_TYPE": "absent",
        "NEAR_DATA_HOST": "unix:///x",
        "BIG_ALLOW_EVERYTHING": "yes",
    }
    for name, value in wrong.items():
        monkeypatch.setenv(f"{_PREFIX}{name}", value)
    with pytest.raises(Invalid) as raised:
        layers.load(write(tmp_path / "r.json"))
    text = raised.value.message
    for words in (
        "job_dispatchers.big.data.image: the dispatcher `docker` needs the image of executors",
        f"job_dispatchers.big.data.memory_limit (environment {_PREFIX}BIG_DATA_MEMORY_LIMIT): 'lots' is not an amount",
        f"job_dispatchers.big.allow.service_accounts (environment {_PREFIX}BIG_ALLOW_SERVICE_ACCOUNTS): the dispatcher "
        "`docker` cannot give this to a job",
        f"job_dispatchers.here.allow.images (environment {_PREFIX}HERE_ALLOW_IMAGES): the dispatcher `local` cannot give",
        f"job_dispatchers.here.data.image (environment {_PREFIX}HERE_DATA_IMAGE): the dispatcher `local` has no such setting",
        "'docker' is the name of another type than local: use another name",
        "'default' is the name of the dispatcher of job_dispatcher: use another one",
        f"job_dispatchers.far.type (environment {_PREFIX}FAR_TYPE): there is no dispatcher 'absent' here",
        "job_dispatchers.near.type: is required (in the file, or as TERRACREW_JOB_DISPATCHERS__NEAR__TYPE)",
        f"{_PREFIX}BIG_ALLOW_EVERYTHING (environment): there is no such variable",
    ):
        assert words in text, (words, text)


def test_plain_http_to_another_machine_is_refused_for_every_dispatcher(tmp_path: Path) -> None:
    data = {"api_url": "http://inside.example"}
    file = write(tmp_path / "r.json", job_dispatchers={"second": {"type": "local", "data": data}})
    with pytest.raises(Invalid, match=r"job_dispatchers\.second\.data\.api_url .*plain http to another machine"):
        layers.load(file)


def test_what_is_secret_in_a_further_dispatcher_is_neither_printed_nor_taken_from_the_command_line(
    tmp_path: Path,
) -> None:
    data = {"image": "executor:1", "registry_username": "me", "registry_password": "hush", "unheard_of": "psst"}
    allow = {"images": ["team/*"]}
    file = write(tmp_path / "r.json", job_dispatchers={"big": {"type": "docker", "data": data, "allow": allow}})
    with pytest.raises(Invalid) as raised:
        layers.load(file, {"job_dispatchers.big.data.registry_password": "from-the-command-line"})
    assert "every user can read arguments" in raised.value.message
    assert "from-the-command-line" not in raised.value.message
    del data["unheard_of"]
    file = write(tmp_path / "r.json", job_dispatchers={"big": {"type": "docker", "data": data, "allow": allow}})
    found = {each.name: each.value for each in effective.effective(layers.merged(file))}
    assert found["job_dispatchers.big.type"] == "docker"
    assert found["job_dispatchers.big.allow.images"] == ["team/*"]
    assert found["job_dispatchers.big.data.image"] == "executor:1"
    assert found["job_dispatchers.big.data.registry_password"] == "(hidden)"


@pytest.mark.parametrize("name", ["BIG", "BIG_SIZE", "BIG_DATA_", "big_TYPE", "BIG_ALLOW_X"])
def test_a_variable_of_a_dispatcher_that_does_not_exist_is_unknown(name: str) -> None:
    assert not variables.is_known(f"{_PREFIX}{name}")
