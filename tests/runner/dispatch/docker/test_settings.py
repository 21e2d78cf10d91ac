"""The parameters of the dispatcher `docker`, as variables of the runner's environment."""

from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.start import IsolationSettings
from terracrew.runner.dispatch.containers import container_start
from terracrew.runner.dispatch.docker import containers, settings
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
def test_paths_of_the_host_are_bound_into_every_container_that_runs_a_job() -> None:
    """`/srv/aws:/home/aws` was refused: no file of the host could reach an executor, such as a kubeconfig."""
    text = "/srv/terracrew, /srv/aws:/home/aws/.aws:ro,/srv/shared:/mnt/shared"
    chosen = settings.parse({"image": "a", "bind_path": text})
    assert chosen.bind_path == "/srv/terracrew"
    owner = containers.ContainerOwner.for_key("key", "edge", "one")
    mounts = [
        {"Type": "bind", "Source": "/srv/aws", "Target": "/home/aws/.aws", "ReadOnly": True},
        {"Type": "bind", "Source": "/srv/shared", "Target": "/mnt/shared", "ReadOnly": False},
    ]
    assert containers.configuration(chosen, owner, "job_1.1")["HostConfig"]["Mounts"] == mounts
    assert not containers.configuration(chosen, owner, "job_1.1", is_salvage=True)["HostConfig"].get("Mounts")
    alone = settings.parse({"image": "a", "bind_path": "/srv/aws:/home/aws/.aws:ro"})
    assert alone.bind_path == "", "each attempt has a volume"
    volume, bound = containers.configuration(alone, owner, "job_1.1")["HostConfig"]["Mounts"]
    assert (volume["Type"], bound) == ("volume", mounts[0])
    isolation = container_start.with_bindings(IsolationSettings("landlock", ["/a"], ["/b"]), chosen.bindings)
    assert (isolation.read_paths, isolation.write_paths) == (["/a", "/home/aws/.aws"], ["/b", "/mnt/shared"])


@pytest.mark.feature("D3.docker", "X4.isolation")
@pytest.mark.parametrize(
    "text",
    [
        "/srv/a,/srv/b",
        "relative:/x",
        "/srv/a:relative",
        "/srv/a:/x:shared",
        "/srv/a:/x:ro:z",
        "/srv/../etc:/x",
        "/srv/a:/x,/srv/b:/x",
        "/srv/a:",
        ":/x",
        "/var/run/docker.sock:/x",
        "//var//run/docker.sock:/x",
        "/run/docker.sock:/x:ro",
        "/var/run:/x",
        "/:/host:ro",
        "/srv/tc,/srv/tc:/x:ro",
        "/srv/tc,/srv:/srv",
        "/srv:/srv,/srv/tc",
        "/srv/tc,/srv/tc/job_1.1:/x",
        "/var/run/tc,/run/tc:/x",
        "/proc/1/root:/x",
        "/proc:/x:ro",
        "/sys/fs/cgroup:/x",
        "/dev:/x",
        "/dev/sda:/x",
        "/run/containerd:/x",
        "/var/run/containerd/containerd.sock:/x",
        "/run/podman/podman.sock:/x",
        "/run/crio:/x",
        "/run/user/1000:/x",
        "/run:/x",
        "/var/lib/docker/volumes:/x:ro",
        "/var/lib:/x:ro",
        "/srv/a:/",
        "/srv/a:/terracrew",
        "/srv/a:/terracrew/attempts",
        "/srv/a:/proc/x",
        "/srv/a:/dev",
        "/srv/a:/tmp",
        ",",
    ],
)
def test_a_binding_gives_no_module_the_daemon_or_the_place_of_the_attempts(text: str) -> None:
    with pytest.raises(Invalid, match="BIND_PATH"):
        settings.parse({"image": "a", "bind_path": text})


@pytest.mark.feature("D3.docker", "X4.isolation")
def test_a_job_cannot_ask_for_a_binding() -> None:
    chosen = settings.parse({"image": "a", "bind_path": "/srv/aws:/home/aws/.aws:ro"})
    asked = DispatcherChoice(image="b", memory_mb=700, cpu=2.0)
    assert settings.with_choice(chosen, asked).bindings == chosen.bindings
    assert "bindings" not in DispatcherChoice.__struct_fields__


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
