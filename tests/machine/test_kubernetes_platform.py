"""The cluster of the tests: pods run in it, reach the API and this machine, and its parts can be stopped."""

import base64
import http.server
import json
import threading
import urllib.request
from typing import Any

import pytest

from tests.machine import platforms
from tests.machine.platforms.kubernetes import Cluster, Kubernetes, own_cluster
from tests.machine.platforms.kubernetes.files import PAUSE_IMAGE

pytestmark = [pytest.mark.platform("kubernetes"), pytest.mark.timeout(4000)]  # the first start builds Kubernetes


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.of(platforms.need("kubernetes"))


def pod(name: str, *command: str, **spec: Any) -> dict[str, Any]:
    """A pod on the image that every node of the tests has: a busybox."""
    container = {"name": "main", "image": PAUSE_IMAGE, "imagePullPolicy": "Never", "command": ["busybox", *command]}
    whole = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    return cluster.get(namespace, "pod", name)["status"]["phase"]


def has_ended(cluster: Cluster, namespace: str, name: str) -> str:
    found = phase(cluster, namespace, name)
    return found if found in ("Succeeded", "Failed") else ""


def test_a_pod_has_a_token_of_its_own_and_reaches_the_api_and_this_machine(cluster: Cluster) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello from a test")

    with http.server.HTTPServer((cluster.address, 0), Handler) as server, cluster.namespace() as namespace:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            port = server.server_address[1]
            script = f"set -e; busybox wget -qO- http://{cluster.address}:{port}/; echo; "
            script += (
                "busybox nc -w5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo reached the API; "
            )
            script += "busybox cut -d. -f2 /var/run/secrets/kubernetes.io/serviceaccount/token"
            cluster.apply(namespace, pod("a", "sh", "-c", script))
            ended = cluster.wait("end of the pod", lambda: has_ended(cluster, namespace, "a"))
            log = cluster.kubectl("logs", "a", "--namespace", namespace)
        finally:
            server.shutdown()
    assert ended == "Succeeded", log
    hello, reached, token = log.split("\n", 2)
    assert (hello, reached) == ("hello from a test", "reached the API")
    claims = json.loads(base64.urlsafe_b64decode(token.strip() + "==="))
    assert (claims["iss"], claims["kubernetes.io"]["pod"]["name"]) == (cluster.url, "a")


def test_the_issuer_of_tokens_can_be_read_by_everybody(cluster: Cluster) -> None:
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=cluster.trust())
    )
    found = json.load(opener.open(f"{cluster.url}/.well-known/openid-configuration", timeout=10))
    assert found["issuer"] == cluster.url
    assert json.load(opener.open(found["jwks_uri"], timeout=10))["keys"][0]["alg"] == "RS256"


def test_two_runs_of_the_tests_share_the_cluster(cluster: Cluster) -> None:
    second = Kubernetes()
    assert second.join() == cluster.kubeconfig
    second.leave()
    assert cluster.ask("status") == "done"


def test_a_cluster_of_its_own_can_lose_its_kubelet_and_its_api_server() -> None:
    platforms.need("kubernetes")
    with own_cluster() as cluster, cluster.namespace() as namespace:
        cluster.apply(namespace, pod("a", "sleep", "3600"))
        cluster.wait("running pod", lambda: phase(cluster, namespace, "a") == "Running")
        cluster.stop("kubelet")
        cluster.apply(namespace, pod("b", "true"))
        cluster.kubectl("wait", "node", "--all", "--for=condition=Ready=Unknown", "--timeout=60s")
        assert phase(cluster, namespace, "b") == "Pending"
        cluster.start("kubelet")
        cluster.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=60s")

        cluster.stop("kube-apiserver")
        assert "refused" in cluster.kubectl("get", "pods", "--namespace", namespace, code=1)
        cluster.start("kube-apiserver")
        cluster.pause("kube-apiserver")
        said = cluster.kubectl("get", "pods", "--namespace", namespace, "--request-timeout=1s", code=1)
        assert "refused" not in said, "a part that is paused keeps its connections"
        cluster.resume("kube-apiserver")
        cluster.get(namespace, "pods")
    assert not cluster.places.data.exists()
    assert not any(folder.exists() for folder in cluster.places.cgroups())
