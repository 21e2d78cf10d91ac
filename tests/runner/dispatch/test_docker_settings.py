"""The parameters of the dispatcher `docker`, as variables of the runner's environment."""

from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.runner.dispatch.docker import settings
from terracrew.settings import layers

PREFIX = "TERRACREW_JOB_DISPATCHER_DATA_"


@pytest.mark.feature("D3.docker")
def test_every_parameter_is_read() -> None:
    assert settings.parse(
        {
            "host": "tcp://10.0.0.5:2376",
            "image": "registry.example:5000/terracrew/executor:1.0",
            "local_image": "Yes",
            "extra_hosts": "db.example:10.0.0.7, host.docker.internal:host-gateway",
            "memory_limit": "42 MB",
            "cpu_limit": "1.5",
            "pids_limit": "512",
            "bind_path": "/srv/terracrew",
            "network": "jobs",
            "environment": "AWS_*,HTTPS_PROXY",
            "engines": "tofu 1.12.6, tofu 1.10.0, terraform=1.5.7",
            "pull_seconds": "60",
            "registry_username": "robot",
            "registry_password": "hush",
        }
    ) == settings.DockerSettings(
        "registry.example:5000/terracrew/executor:1.0",
        host="tcp://10.0.0.5:2376",
        is_local_image=True,
        extra_hosts=["db.example:10.0.0.7", "host.docker.internal:host-gateway"],
        memory_bytes=42 << 20,
        cpus=1.5,
        pids=512,
        bind_path="/srv/terracrew",
        network="jobs",
        environment=["AWS_*", "HTTPS_PROXY"],
        engines={"tofu": ["1.12.6", "1.10.0"], "terraform": ["1.5.7"]},
        pull_seconds=60.0,
        registry_username="robot",
        registry_password="hush",
    )


@pytest.mark.feature("D3.docker")
@pytest.mark.parametrize(
    ("text", "size"), [("42 MB", 42 << 20), ("512m", 512 << 20), ("1.5GiB", 3 << 29), ("8388608", 8 << 20)]
)
def test_an_amount_of_memory_is_read(text: str, size: int) -> None:
    assert settings.memory(text) == size


WRONG = {
    "HOST": "localhost",
    "IMAGE": "not an image",
    "LOCAL_IMAGE": "perhaps",
    "EXTRA_HOSTS": "db.example",
    "MEMORY_LIMIT": "much",
    "CPU_LIMIT": "-1",
    "PIDS_LIMIT": "2",
    "BIND_PATH": "relative/path",
    "NETWORK": "two words",
    "ENVIRONMENT": "A B",
    "ENGINES": "tofu",
    "PULL_SECONDS": "soon",
    "REGISTRY_USERNAME": "robot",
    "CONTEXT": "unknown",
}


@pytest.mark.feature("D7.parameters")
def test_all_wrong_parameters_are_reported_at_once_with_their_variables() -> None:
    with pytest.raises(Invalid) as caught:
        settings.parse({name.lower(): text for name, text in WRONG.items()})
    for name in {*WRONG, "REGISTRY_PASSWORD"} - {"REGISTRY_USERNAME"}:
        assert f"{PREFIX}{name}: " in caught.value.message
    with pytest.raises(Invalid, match=f"{PREFIX}IMAGE: the dispatcher `docker` needs"):
        settings.parse({})


@pytest.mark.feature("D7.parameters")
def test_a_runner_that_starts_reports_them_with_all_other_mistakes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERRACREW_JOB_DISPATCHER_TYPE", "docker")
    for name, text in WRONG.items():
        monkeypatch.setenv(f"{PREFIX}{name}", text)
    file = tmp_path / "runner.json"
    file.write_text('{"server": {"url": "http://127.0.0.1:7500"}}')
    with pytest.raises(Invalid) as caught:
        layers.load(file)
    for name in WRONG.keys() - {"REGISTRY_USERNAME"}:
        assert f"(environment {PREFIX}{name})" in caught.value.message
    assert "job_dispatcher.data.registry_password" in caught.value.message
    assert "runner.id" in caught.value.message


@pytest.mark.feature("D7.parameters")
def test_the_password_of_a_registry_is_not_shown() -> None:
    chosen = settings.parse({"image": "a", "registry_username": "robot", "registry_password": "hush"})
    assert "hush" not in repr(chosen)


@pytest.mark.feature("J10.collector")
def test_containers_without_a_limit_share_the_memory_of_their_machine() -> None:
    without = settings.DockerSettings("image")
    assert settings.sharing(without, 10) == 10
    assert settings.sharing(settings.with_choice(without, DispatcherChoice(memory_mb=700)), 10) == 1
