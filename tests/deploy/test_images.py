"""The images of server, runner and executor, built from this checkout and started as the documentation says."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import containers
from tests.deploy.containers import ROOT, ContainedServer, Docker
from tests.e2e.system import eventually
from tests.machine import platforms

pytestmark = [pytest.mark.platform("docker"), pytest.mark.engine, pytest.mark.timeout(1800)]
TARGETS = ("server", "executor", "runner")
MAX_MEGABYTES = {"server": 285, "executor": 445, "runner": 455}
"""OpenTofu has 115 of these, and git with Perl 90."""
OPENS_ALL = """
import importlib, boto3
for name in ("docker.dispatcher", "kubernetes.dispatcher", "ecs.dispatcher"):
    importlib.import_module(f"terracrew.runner.dispatch.{name}")
    print(name.partition(".")[0])
for name in ("eks", "ecs", "sts", "secretsmanager", "ssm"):
    boto3.client(name, region_name="eu-west-1")
    print(name)
"""
"""Imports the dispatchers, and opens what they and the stores of settings use of AWS."""
UUID = "01890a5d-ac96-774b-bcce-b302099a8057"
REGISTERED = {
    "TERRACREW_SERVER__URL": "https://terracrew.example.com",
    "TERRACREW_RUNNER__INSTANCE": "one",
    "TERRACREW_RUNNER__ORGANIZATION_ID": f"org_{UUID}",
    "TERRACREW_RUNNER__ID": f"rnr_{UUID}",
    "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID": "wrk_1",
    "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN": "tcw_1",
}
"""What a runner needs besides the settings of a test."""
HARDENED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


@pytest.fixture
def docker() -> Docker:
    return containers.docker()


@pytest.mark.feature("D8.contents")
@pytest.mark.parametrize("target", TARGETS)
def test_an_image_is_small_and_has_labels_and_a_bill_of_materials(docker: Docker, target: str) -> None:
    image = containers.image(target)
    found = json.loads(docker.run("image", "inspect", image))[0]
    assert found["Config"]["User"] == "10001:10001"
    labels = found["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == f"Terracrew {target}"
    assert labels["org.opencontainers.image.version"] != "unknown"
    assert found["Size"] / 1e6 < MAX_MEGABYTES[target]

    bill = json.loads((ROOT / "build" / "images" / f"{target}.cdx.json").read_text())
    names = {part["purl"].partition("@")[0] for part in bill["components"]}
    assert {"pkg:pypi/terracrew", "pkg:pypi/cryptography", "pkg:deb/debian/libc6"} <= names
    assert ("pkg:generic/tofu" in names) is (target != "server")
    assert ("pkg:generic/opa" in names) is (target == "server")
    assert len(bill["components"]) == len({part["bom-ref"] for part in bill["components"]})


@pytest.mark.feature("D8.contents")
@pytest.mark.parametrize("target", TARGETS)
def test_an_image_has_no_compiler_no_installer_and_nothing_that_its_user_could_change(
    docker: Docker, target: str
) -> None:
    image = containers.image(target)
    for program in ("pip", "pip3", "uv", "gcc", "cc", "strip"):
        refused = docker.run("run", "--rm", "--network", "none", "--entrypoint", program, image, "--version", code=127)
        assert "executable file not found" in refused
    writable = ("find", "/", "-xdev", "-writable", "-not", "-type", "l", "-not", "-path", "/proc/*")
    found = docker.run("run", "--rm", "--network", "none", "--entrypoint", writable[0], image, *writable[1:], code=1)
    inside = {line for line in found.splitlines() if line.startswith("/") and not line.startswith("/dev")}
    own = ("/tmp", "/var/tmp", "/run/lock", "/home/terracrew", "/var/lib/terracrew")
    assert {path for path in inside if not path.startswith(own)} == set()


@pytest.mark.feature("D8.image", "A4.aws", "A4.kubernetes")
def test_credential_helpers_are_at_their_place_in_the_image_of_the_runner(docker: Docker) -> None:
    image = containers.image("runner")
    listed = docker.run("run", "--rm", "--network", "none", "--entrypoint", "ls", image, "/opt/credhelpers").split()
    assert set(listed) == {"aws", "kubernetes"}
    for name in listed:
        run = ("run", "--rm", "--network", "none", "--entrypoint", f"/opt/credhelpers/{name}", image, "--help")
        assert {"aws": "--aud", "kubernetes": "--file"}[name] in docker.run(*run)


@pytest.mark.feature("D8.contents", "T3.aws")
@pytest.mark.platform("aws")
@pytest.mark.parametrize(("target", "prefix"), [("server", "TERRACREW_SERVER"), ("runner", "TERRACREW")])
def test_an_image_reads_settings_from_aws(docker: Docker, target: str, prefix: str) -> None:
    address, name = platforms.need("aws"), f"image-{target}"
    boto3: Any = importlib.import_module("boto3")
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    aws = boto3.client("secretsmanager", region_name="eu-west-1", endpoint_url=address, **keys)
    aws.create_secret(Name=name, SecretString="30")
    setting = {"server": "RETAIN_LOGS_DAYS", "runner": "RUNNER__CAPACITY"}[target]
    variables = {
        f"{prefix}_EXTERNAL__SETTINGS__{setting}": f"aws-secret:{name}",
        f"{prefix}_EXTERNAL__AWS__REGION": "eu-west-1",
        f"{prefix}_EXTERNAL__AWS__ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        **(REGISTERED if target == "runner" else {}),
    }
    given = [word for key, value in variables.items() for word in ("--env", f"{key}={value}")]
    shown = docker.run("run", "--rm", "--network", "host", *given, containers.image(target), target, "settings")
    assert f"aws-secret:{name}" in shown


@pytest.mark.feature("D8.contents")
def test_the_image_of_the_runner_has_what_every_dispatcher_needs(docker: Docker) -> None:
    run = ("run", "--rm", "--network", "none", "--entrypoint", "python3", containers.image("runner"), "-c", OPENS_ALL)
    assert docker.run(*run).split() == ["docker", "kubernetes", "ecs", "eks", "ecs", "sts", "secretsmanager", "ssm"]


@pytest.fixture
def server(docker: Docker, tmp_path: Path) -> Iterator[ContainedServer]:
    made = ContainedServer(tmp_path, docker)
    variables = tmp_path / "server.env"
    variables.write_text(f"TERRACREW_SERVER_PORT={made.port}\nTERRACREW_SERVER_HOST=127.0.0.1\n")
    options = (*HARDENED, "--volume", "/var/lib/terracrew", "--env-file", str(variables))
    with docker.started(containers.image("server"), *options) as made.name:
        eventually(made.is_healthy, within=180, what="the health of the server")
        yield made


@pytest.mark.feature("D8.image")
def test_a_runner_started_with_an_env_file_applies_a_module(
    docker: Docker, server: ContainedServer, tmp_path: Path
) -> None:
    credentials = server.register_runner()
    aws = tmp_path / "aws"
    aws.mkdir()
    (aws / "config").write_text("[default]\nregion = eu-west-1\n")
    aws.chmod(0o755)
    variables = tmp_path / "runner.env"
    chosen = credentials | {"TERRACREW_API_URL": server.url, "TERRACREW_RUNNER__INSTANCE": "in-a-container"}
    variables.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()))
    volumes = ("--volume", "/home/terracrew/.terracrew", "--volume", f"{aws}:/home/terracrew/.aws:ro")
    server.module("a", 'resource "terraform_data" "x" {}\noutput "home" { value = fileexists("~/.aws/config") }\n')
    with docker.started(containers.image("runner"), *HARDENED, *volumes, "--env-file", str(variables)) as name:
        done = server.wait(server.run("a", "APPLY"), within=180)
        assert (done["status"], done["instance_name"]) == ("SUCCEEDED", "in-a-container"), docker.logs(name)
        log = server.log(done["id"])
        assert "1 added" in log
        assert "home = true" in log, "the directory ~/.aws is not seen"
        docker.run("stop", "--time", "60", name)
        assert docker.run("inspect", "--format", "{{.State.ExitCode}}", name).strip() == "0"


PAUSED = """
resource "terraform_data" "made" {
  input = "made"
}
resource "terraform_data" "slow" {
  input = terraform_data.made.output
  provisioner "local-exec" { command = "echo in the middle; sleep 3600" }
}
"""


@pytest.mark.feature("O2.notices")
def test_a_container_that_is_stopped_saves_the_state_of_a_job_that_would_take_longer(
    docker: Docker, server: ContainedServer, tmp_path: Path
) -> None:
    """Fargate does the same: SIGTERM to the first process, and SIGKILL to all of them some time later. Its disk is lost."""
    variables = tmp_path / "runner.env"
    chosen = server.register_runner() | {
        "TERRACREW_API_URL": server.url,
        "TERRACREW_RUNNER__INSTANCE": "in-a-container",
        "TERRACREW_RUNNER__STOP_SECONDS": "20",
        "TERRACREW_RUNNER__ROTATE_WORKER_TOKEN": "false",
    }
    variables.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()))
    server.module("a", PAUSED)
    volume = ("--volume", "/home/terracrew/.terracrew")
    with docker.started(containers.image("runner"), *HARDENED, *volume, "--env-file", str(variables)) as name:
        job = server.run("a", "APPLY")
        eventually(lambda: "in the middle" in server.log(job), within=180, what="the middle of the apply")
        docker.run("stop", "--time", "25", name)
        assert docker.run("inspect", "--format", "{{.State.ExitCode}}", name).strip() == "0", docker.logs(name)
    after = server.job(job)
    (first,) = after["attempts"]
    assert (after["status"], after["cancel_mode"], first["is_in_doubt"]) == ("QUEUED", None, False)
    assert "its runner had to end: SIGTERM at" in first["reason"]
    assert "terraform_data.made" in str(server.api.get("/modules/a/resources"))
