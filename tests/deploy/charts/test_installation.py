"""The charts, installed in a real cluster whose namespace enforces the restricted security standard: jobs run through them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terracrew.client.http import Api
from terracrew.runner.dispatch.kubernetes import manifests
from tests.deploy.charts import images
from tests.deploy.charts.helm import Helm
from tests.e2e import modules
from tests.e2e.system import System, eventually
from tests.e2e.waiting_room import WaitingRoom
from tests.machine import platforms
from tests.machine.platforms.kubernetes import Cluster

pytestmark = [pytest.mark.platform("docker", "kubernetes"), pytest.mark.engine, pytest.mark.timeout(4000)]
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
BASELINE = {"pod-security.kubernetes.io/enforce": "baseline"}


class Reachable(System):
    """A server on this machine that pods reach, and that trusts the service accounts of their cluster."""

    starts_real_commands = True

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        super().__init__(directory)
        self.url = f"http://{cluster.address}:{self.port}"
        self.env |= {
            "TERRACREW_SERVER_HOST": cluster.address,
            "TERRACREW_SERVER_PUBLIC_URL": self.url,
            "TERRACREW_SERVER_FEDERATION_PRIVATE_ISSUERS": cluster.url,
            "SSL_CERT_FILE": str(cluster.places.authority),
        }


class Contained(System):
    """A server in a pod. What a person does with it is the same as with another."""

    def __init__(self, directory: Path, cluster: Cluster, namespace: str) -> None:
        super().__init__(directory)
        self._cluster, self._namespace = cluster, namespace
        pod = eventually(self._ready_pod, within=120, what="a server that is ready")
        self.url = f"http://{pod['status']['podIP']}:7400"
        read = ("exec", "edge-0", "--namespace", namespace, "--", "cat", "/var/lib/terracrew/data/admin.token")
        self._token = cluster.kubectl(*read).strip()

    @property
    def api(self) -> Api:
        return Api(self.url, self._token)

    def _ready_pod(self) -> dict[str, Any] | None:
        for pod in self._cluster.get(self._namespace, "pods")["items"]:
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
            if conditions.get("Ready") == "True":
                return pod
        return None


class Site:
    """A namespace with what a release needs, and Helm."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.helm = Helm(cluster.kubeconfig, folder)

    def make_volumes(self, count: int) -> dict[str, Any]:
        """Make volumes on the node, and return the value `persistence` that claims them."""
        storage_class = f"class-{self.namespace}"
        for number in range(count):
            path = self.folder / f"volume-{number}"
            path.mkdir()
            self.cluster.apply("default", _volume(f"{self.namespace}-{number}", storage_class, path))
        return {"storageClass": storage_class, "size": "1Gi"}

    def remove_volumes(self) -> None:
        for volume in self.cluster.get("default", "persistentvolumes")["items"]:
            if volume["metadata"]["name"].startswith(self.namespace):
                self.cluster.kubectl("delete", "persistentvolume", volume["metadata"]["name"], "--wait=false")

    def runner(self, server: System, **chosen: Any) -> dict[str, Any]:
        return {
            "image": images.image(self.cluster, "runner"),
            "server": {"url": server.url, "allowPlainHttp": True},
            "terminationGracePeriodSeconds": 5,
        } | chosen

    def secret(self, name: str, variables: dict[str, str]) -> dict[str, str]:
        file = self.folder / f"{name}.env"
        file.write_text("".join(f"{key}={value}\n" for key, value in variables.items()))
        self.cluster.kubectl("create", "secret", "generic", name, f"--from-env-file={file}", "-n", self.namespace)
        return {"existingSecret": name}

    def wait_online(self, server: System, *names: str) -> None:
        """Wait until the instances of the runner `crew` are exactly these, and all are online."""
        try:
            eventually(lambda: is_online(server, *names), within=120, what=f"{names} online")
        except AssertionError as error:
            raise AssertionError(f"{error}: {instances(server)}\n{self.story()}") from None

    def story(self) -> str:
        """What a person would look at if something does not work."""
        shown = self.cluster.kubectl("describe", "pods", "--namespace", self.namespace)
        for pod in self.cluster.get(self.namespace, "pods")["items"]:
            name = pod["metadata"]["name"]
            shown += f"\n---- {name}\n"
            if any(each.get("ready") for each in pod["status"].get("containerStatuses", [])):
                shown += self.cluster.kubectl("logs", name, "--namespace", self.namespace)
        return shown


def _volume(name: str, storage_class: str, path: Path) -> dict[str, Any]:
    term = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
        },
    }


def instances(server: System) -> dict[str, str]:
    """The status of each instance of the runner `crew`, by name."""
    return {each["name"]: each["status"] for each in server.api.get("/runners/crew")["instances"]}


def is_online(server: System, *names: str) -> bool:
    found = instances(server)
    return set(found) == set(names) and set(found.values()) == {"ONLINE"}


@pytest.fixture
def site(memory_path: Path) -> Iterator[Site]:
    cluster = Cluster.of(platforms.need("kubernetes"))
    with cluster.namespace(**RESTRICTED) as namespace:
        made = Site(cluster, namespace, memory_path)
        try:
            yield made
        finally:
            made.helm.uninstall(namespace)
            made.remove_volumes()


@pytest.fixture
def server(site: Site, tmp_path: Path) -> Iterator[Reachable]:
    system = Reachable(tmp_path, site.cluster)
    try:
        system.start_server(runner=False)
        yield system
    finally:
        system.close()


@pytest.mark.feature("D8.kubernetes")
def test_replicas_of_a_runner_are_its_instances_and_run_jobs(site: Site, server: Reachable) -> None:
    chosen = site.runner(
        server,
        persistence=site.make_volumes(2),
        credentials=site.secret("crew", server.register_runner(allow_multiple_instances=True)),
    )
    notes = site.helm.install("runner", site.namespace, chosen)
    assert "1 instance(s) of a runner connect to" in notes
    site.wait_online(server, "edge-0")
    server.module("a", modules.quick())
    done = server.wait(server.run("a", "APPLY"), within=120)
    assert (done["status"], done["instance_name"]) == ("SUCCEEDED", "edge-0"), site.story()

    site.helm.install("runner", site.namespace, chosen | {"replicas": 2})
    site.wait_online(server, "edge-0", "edge-1")

    # A pod that is made again is the same instance: its key is on its volume.
    site.cluster.kubectl("delete", "pod", "edge-0", "--namespace", site.namespace)
    site.wait_online(server, "edge-0", "edge-1")
    assert server.wait(server.run("a", "DESTROY"), within=120)["status"] == "SUCCEEDED"


@pytest.mark.feature("D8.kubernetes", "A4.kubernetes", "A3.exchange")
def test_a_runner_without_any_secret_is_trusted_by_the_token_of_its_pod(site: Site, server: Reachable) -> None:
    api = server.api
    account = api.post("/service-accounts", {"name": "runner", "group": ""})
    subject = f"system:serviceaccount:{site.namespace}:edge"
    policy = {"issuer": site.cluster.url, "claims": {"sub": subject}, "is_reusable": True}
    api.post(f"/service-accounts/{account['id']}/trust-policies", policy)
    runner = api.post("/runners", {"name": "crew", "group": "", "service_account": account["id"]})
    federation = {
        "enabled": True,
        "organizationId": runner["organization_id"],
        "runnerPath": "crew",
        "serviceAccountPath": "runner",
    }
    chosen = site.runner(server, persistence=site.make_volumes(1), credentials={"federation": federation})
    notes = site.helm.install("runner", site.namespace, chosen)
    assert f"--claim sub={subject}" in notes
    site.wait_online(server, "edge-0")
    secrets = site.cluster.get(site.namespace, "secrets")["items"]
    assert [each["metadata"]["name"] for each in secrets if not each["type"].startswith("helm.sh/")] == []
    server.module("a", modules.quick())
    assert server.wait(server.run("a", "APPLY"), within=120)["status"] == "SUCCEEDED", site.story()


@pytest.mark.feature("D8.kubernetes", "D4.kubernetes", "D1.kubernetes", "O4.adopted")
def test_jobs_of_a_runner_have_pods_of_their_own_that_outlive_the_pod_of_the_runner(
    site: Site, server: Reachable
) -> None:
    cluster = site.cluster
    with cluster.namespace(**BASELINE) as jobs, WaitingRoom(cluster.address) as waiting_room:
        data = {"IMAGE": cluster.executor_image(), "IMAGE_PULL_POLICY": "Never", "MEMORY_LIMIT": "1 GB"}
        chosen = site.runner(
            server,
            persistence=site.make_volumes(1),
            credentials=site.secret("crew", server.register_runner()),
            dispatcher={"type": "kubernetes", "namespace": jobs, "data": data},
        )
        assert f"Jobs run in pods of the namespace {jobs}" in site.helm.install("runner", site.namespace, chosen)
        site.wait_online(server, "edge-0")
        server.module("a", waiting_room.module)
        job = server.run("a", "APPLY")
        try:
            waiting_room.reached(240)
        except TimeoutError:
            raise AssertionError(f"{server.job(job)}\n{site.story()}") from None
        # The pod that tells the engines of the image may still be there.
        [pod] = [each for each in cluster.get(jobs, "pods")["items"] if manifests.ATTEMPT in each["metadata"]["labels"]]
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"memory": "1Gi"}

        # The next pod of the runner has the key of the first one on its volume, and follows the pod of the job.
        cluster.kubectl("delete", "pod", "edge-0", "--namespace", site.namespace)
        site.wait_online(server, "edge-0")
        waiting_room.open()
        done = server.wait(job, within=240)
        assert (done["status"], done["attempt"]) == ("SUCCEEDED", 1), f"{done}\n{site.story()}"
        everything = ("get", "jobs,pods,secrets", "--namespace", jobs, "--output", "name")
        eventually(lambda: not cluster.kubectl(*everything).split(), within=60, what="the removal of what the job left")


@pytest.mark.feature("D8.kubernetes")
def test_a_server_and_a_runner_in_one_cluster(site: Site, tmp_path: Path) -> None:
    cluster = site.cluster
    volumes = site.make_volumes(1)
    chosen = {"image": images.image(cluster, "server"), "persistence": volumes, "terminationGracePeriodSeconds": 5}
    site.helm.install("server", site.namespace, chosen | {"settings": {"retain_logs_days": 30}})
    server = Contained(tmp_path, cluster, site.namespace)
    with cluster.namespace(**RESTRICTED) as second:
        other = Site(cluster, second, tmp_path)
        credentials = other.secret("crew", server.register_runner())
        values = other.runner(server, persistence=other.make_volumes(1), credentials=credentials)
        other.helm.install("runner", second, values)
        try:
            other.wait_online(server, "edge-0")
            server.module("a", modules.quick())
            assert server.wait(server.run("a", "APPLY"), within=120)["status"] == "SUCCEEDED", other.story()
            # The state and everything else is on the volume of the server.
            cluster.kubectl("delete", "pod", "edge-0", "--namespace", site.namespace)
            again = Contained(tmp_path, cluster, site.namespace)
            assert again.state("a")
        finally:
            other.helm.uninstall(second)
            other.remove_volumes()
