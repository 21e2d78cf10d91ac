"""The units of systemd, started by a real systemd in a container, and their exposure as systemd itself counts it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock
from tests.deploy import containers
from tests.deploy.containers import ROOT, ContainedServer, Docker
from tests.e2e import modules
from tests.e2e.system import eventually

pytestmark = [pytest.mark.platform("docker"), pytest.mark.engine, pytest.mark.timeout(1800)]
UNITS = ROOT / "deploy" / "systemd"
MAX_EXPOSURE = {"server": 1.5, "runner": 2.7}
"""On a scale to 10, where 10 has access to everything. The comments in the units say what a runner cannot do without."""
ABI_OF_ISOLATION = 6
"""The version of Landlock that Linux 6.12 has, which runners need."""
UNCONFINED = [
    word for option in ("seccomp", "apparmor", "systempaths") for word in ("--security-opt", f"{option}=unconfined")
]
OF_SYSTEMD = ("--cap-add", "SYS_ADMIN", "--env", "container=docker", "--tmpfs", "/run", "--tmpfs", "/tmp", *UNCONFINED)


@pytest.fixture
def docker() -> Docker:
    return containers.docker()


@pytest.fixture
def machine(docker: Docker, tmp_path: Path) -> Iterator[ContainedServer]:
    """A machine with systemd and both units. The variables of each are in a folder that the machine sees as /etc/terracrew."""
    image = containers.built(Path(__file__).parent / "systemd" / "Dockerfile", f"IMAGE={containers.image('runner')}")
    made = ContainedServer(tmp_path, docker)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "server.env").write_text(f"TERRACREW_SERVER_PORT={made.port}\n")
    folders = ("/sys/fs/cgroup:/sys/fs/cgroup", f"{UNITS}:/units:ro", f"{tmp_path / 'etc'}:/etc/terracrew:ro")
    volumes = [word for folder in folders for word in ("--volume", folder)]
    with docker.started(image, *OF_SYSTEMD, *volumes) as made.name:
        docker.run("exec", made.name, "cp", "--recursive", "/units/.", "/etc/systemd/system/")
        eventually(lambda: docker.is_done("exec", made.name, "systemctl", "daemon-reload"), within=180, what="systemd")
        yield made


@pytest.mark.feature("D8.systemd")
@pytest.mark.parametrize("unit", ["server", "runner"])
def test_a_unit_is_valid_and_exposes_little(docker: Docker, machine: ContainedServer, unit: str) -> None:
    path = f"/etc/systemd/system/terracrew-{unit}.service"
    assert docker.run("exec", machine.name, "systemd-analyze", "verify", path) == ""
    found = docker.run("exec", machine.name, "systemd-analyze", "security", "--offline=true", "--no-pager", path)
    score = re.search(r"exposure level for \S+: ([\d.]+)", found)
    assert score is not None
    assert float(score[1]) <= MAX_EXPOSURE[unit]


@pytest.mark.feature("D8.systemd")
def test_both_units_start_and_the_runner_applies_a_module(
    docker: Docker, machine: ContainedServer, tmp_path: Path
) -> None:
    docker.run("exec", machine.name, "systemctl", "start", "terracrew-server")
    token = ("exec", machine.name, "test", "-s", "/var/lib/terracrew/admin.token")
    eventually(lambda: docker.is_done(*token), within=180, what="the token of the server")
    eventually(lambda: (machine.api.get("/runners"),), within=180, what="the first answer of the server")
    chosen = machine.register_runner() | {
        "TERRACREW_API_URL": machine.url,
        "TERRACREW_RUNNER__INSTANCE": "unit",
        "TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS": "/opt/engines",
    }
    lines = "".join(f"{name}={value}\n" for name, value in chosen.items())
    (tmp_path / "etc" / "runner.env").write_text(lines)
    docker.run("exec", machine.name, "systemctl", "start", "terracrew-runner")
    machine.module("a", modules.quick())
    done = machine.wait(machine.run("a", "APPLY"), within=180)
    diagnostics = docker.run("exec", machine.name, "journalctl", "--no-pager", "--unit", "terracrew-runner")
    assert (done["status"], done["instance_name"]) == ("SUCCEEDED", "unit"), diagnostics
    # A unit that forbids the system calls of Landlock would take the isolation of jobs away.
    assert landlock.abi() < ABI_OF_ISOLATION or "engines are not isolated" not in diagnostics
