"""A whole Terracrew that starts its runners as pods: a real server with its fleet process, a real cluster, the real OpenTofu."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from terracrew.errors import NotFound
from tests.deploy.charts import images
from tests.e2e.system import System, eventually
from tests.machine import certificates, oidc_issuer, platforms
from tests.machine.oidc_issuer import Issuer
from tests.machine.platforms.kubernetes import Cluster

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker", "kubernetes"), pytest.mark.timeout(900)]

WITHIN_SECONDS = 240.0
QUICK = 'resource "terraform_data" "a" {}\noutput "said" { value = "hello" }\n'
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class CloudSystem(System):
    """A server that pods reach. Its keys are published as files at another address, which the API server reads."""

    starts_real_commands = True

    def __init__(self, directory: Path, cluster: Cluster, issuer: Issuer, certificate: Path) -> None:
        super().__init__(directory)
        self.cluster, self._issuer = cluster, issuer
        image = images.image(cluster, "runner")
        self.url = f"http://{cluster.address}:{self.port}"
        self.env |= {
            "TERRACREW_SERVER_HOST": cluster.address,
            "TERRACREW_SERVER_PUBLIC_URL": self.url,
            "TERRACREW_SERVER_ISSUER_URL": issuer.url,
            "TERRACREW_SERVER_CLOUD_RUNNER_IMAGE": f"docker.io/{image['repository']}:{image['tag']}",
            "TERRACREW_SERVER_FEDERATION_PRIVATE_ISSUERS": cluster.url,
            "SSL_CERT_FILE": str(directory / "authorities.pem"),
        }
        trusted = (certificate, cluster.places.authority)
        (directory / "authorities.pem").write_text("".join(each.read_text() for each in trusted))

    def publish_keys(self) -> None:
        """Do what `terracrew server issuer export` and an upload do."""
        folder = self.directory / "issuer"
        command = ["terracrew.cli", "--url", self.url, "server", "issuer", "export", str(folder)]
        token = (self.data / "admin.token").read_text().strip()
        self.env["TERRACREW_TOKEN"] = token
        subprocess.run([sys.executable, "-m", *command], env=self.env, check=True, capture_output=True)
        for file in folder.rglob("*"):
            if file.is_file():
                self._issuer.answers[f"/{file.relative_to(folder)}"] = (200, {}, file.read_bytes())

    def fleet_job(self, job: dict[str, Any]) -> dict[str, Any]:
        """Wait for the end of a job of the fleet."""

        def ended() -> dict[str, Any] | None:
            found = self.api.get(f"/fleet-jobs/{job['id']}")
            return found if found["finished_at"] else None

        return eventually(ended, within=WITHIN_SECONDS, what=f"the end of {job['type']}")

    def instances(self) -> list[str]:
        found = self.api.get("/runners/pods")["instances"]
        return [each["name"] for each in found if each["status"] == "ONLINE"]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.of(platforms.need("kubernetes"))


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace(**RESTRICTED) as namespace:
        yield namespace


@pytest.fixture
def system(tmp_path: Path, cluster: Cluster) -> Iterator[CloudSystem]:
    folder = tmp_path / "certificate"
    folder.mkdir()
    # An issuer of clouds has no port in its address, so each process of the tests has an address of its own.
    address = f"127.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250}.7"
    pair = certificates.certificate(folder, address)
    with oidc_issuer.running(address, pair, 443) as issuer:
        system = CloudSystem(tmp_path, cluster, issuer, pair[0])
        try:
            yield system
        finally:
            system.close()


@pytest.fixture
def trusting(system: CloudSystem, cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[str]:
    """A namespace that the cloud identity `prod` of a running server may use."""
    system.start_server(runner=False)
    system.publish_keys()
    body = {
        "name": "prod",
        "kind": "kubernetes",
        "api_url": cluster.url,
        "ca_certificate": cluster.places.authority.read_text(),
        "namespace": namespace,
    }
    system.api.post("/cloud-identities", body)
    texts = {each["name"]: each["text"] for each in system.api.get("/cloud-identities/prod/policies")["documents"]}
    [entry] = yaml.safe_load(texts["authentication"])["jwt"]
    entry["issuer"]["certificateAuthority"] = (tmp_path / "certificate" / "tls.crt").read_text()
    with cluster.trusting(entry):
        cluster.kubectl("apply", "--filename", "-", text=texts["objects"])

        def tested() -> bool:
            job = system.fleet_job(system.api.post("/cloud-identities/prod/test"))
            return job["status"] == "SUCCEEDED"

        eventually(tested, within=WITHIN_SECONDS, what="a connection that passes")
        yield namespace


def pods(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The phases of the pods, by name."""
    return {each["metadata"]["name"]: each["status"]["phase"] for each in cluster.get(namespace, "pods")["items"]}


def _are_asleep(found: dict[str, str], count: int) -> bool:
    """Return whether this many pods have run, and all have left by themselves."""
    return list(found.values()) == ["Succeeded"] * count


@pytest.mark.feature("W1.identities", "W1.issuer", "W2.deploy", "W3.scale", "W4.fleet", "W5.destroy", "W5.report")
def test_a_runner_is_deployed_sleeps_wakes_for_a_job_and_is_removed_without_a_trace(
    system: CloudSystem, trusting: str, cluster: Cluster
) -> None:
    namespace = trusting
    settings = {"cpu_units": 256, "memory_mb": 512, "idle_seconds": 10}
    made = system.api.post("/runners/deploy", {"name": "pods", "identity": "prod", "settings": settings})
    deployed = system.fleet_job(made["job"])
    assert deployed["status"] == "SUCCEEDED", json.dumps(deployed, indent=1)
    # The instance that proved the deployment has no job, and leaves.
    eventually(lambda: _are_asleep(pods(cluster, namespace), 1), within=WITHIN_SECONDS, what="sleep")
    assert system.instances() == []

    # One pod is woken for a job, and leaves after it.
    system.module("app", QUICK)
    job = system.run("app", "APPLY")
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED", system.job(job)
    assert "Apply complete! Resources: 1 added" in system.log(job)
    eventually(lambda: _are_asleep(pods(cluster, namespace), 2), within=WITHIN_SECONDS, what="sleep after the job")
    assert system.instances() == []

    found = system.api.post("/cloud-identities/prod/report")
    assert {each["kind"] for each in found["resources"]} == {"pod", "secret", "service account"}

    removal = system.fleet_job(system.api.post("/runners/pods/destroy", {})["job"])
    assert removal["status"] == "SUCCEEDED", removal
    with pytest.raises(NotFound):
        system.api.get("/runners/pods")
    everything = ("get", "pods,secrets,serviceaccounts", "--namespace", namespace, "--output", "name")
    assert cluster.kubectl(*everything).split() == ["serviceaccount/default"]


@pytest.mark.feature("W2.deploy")
def test_a_federated_runner_needs_no_secret_in_the_cluster(
    system: CloudSystem, trusting: str, cluster: Cluster
) -> None:
    """Its pods show the token of the service account that they have, which the account in Terracrew trusts."""
    cluster.apply(trusting, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "crew"}})
    system.api.post("/service-accounts", {"name": "bot", "group": ""})
    claims = {"sub": f"system:serviceaccount:{trusting}:crew"}
    policy = {"issuer": cluster.url, "audience": system.url, "claims": claims, "is_reusable": True}
    system.api.post("/service-accounts/bot/trust-policies", policy)
    settings = {"cpu_units": 256, "memory_mb": 512, "idle_seconds": 10, "credential": "federated", "job_role": "crew"}
    body = {"name": "pods", "identity": "prod", "settings": settings, "service_account": "bot"}
    deployed = system.fleet_job(system.api.post("/runners/deploy", body)["job"])
    assert deployed["status"] == "SUCCEEDED", json.dumps(deployed, indent=1)
    assert cluster.get(trusting, "secrets")["items"] == []
    eventually(lambda: _are_asleep(pods(cluster, trusting), 1), within=WITHIN_SECONDS, what="sleep")
    removal = system.fleet_job(system.api.post("/runners/pods/destroy", {})["job"])
    assert removal["status"] == "SUCCEEDED", removal
    assert pods(cluster, trusting) == {}
    cluster.kubectl("get", "serviceaccount", "crew", "--namespace", trusting)
