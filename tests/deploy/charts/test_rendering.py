"""What Helm makes of the charts, and what it refuses. The API server of a real cluster checks every object."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.charts.helm import Helm, chart
from tests.machine import platforms
from tests.machine.platforms.kubernetes import Cluster

pytestmark = [pytest.mark.platform("kubernetes"), pytest.mark.timeout(4000)]
RUNNER: dict[str, Any] = {"server": {"url": "https://terracrew.example.com"}, "credentials": {"existingSecret": "edge"}}
FEDERATED: dict[str, Any] = {
    "server": {"url": "https://terracrew.example.com"},
    "credentials": {
        "federation": {
            "enabled": True,
            "organizationId": "org_0123456789",
            "runnerPath": "acme/edge",
            "serviceAccountPath": "acme/runner",
        }
    },
}
DISPATCHING = RUNNER | {"dispatcher": {"type": "kubernetes", "data": {"IMAGE": "terracrew-executor:0.1.0"}}}
SERVER: dict[str, Any] = {}
SHARED: dict[str, Any] = {
    "replicas": 3,
    "database": {"existingSecret": "database"},
    "masterKey": {"existingSecret": "master-key"},
    "objectStore": "s3://terracrew",
    "ingress": {"enabled": True, "host": "terracrew.example.com", "tlsSecret": "tls", "className": "nginx"},
    "settings": {"retain_logs_days": 365, "allowed_hosts": ["crew.internal"]},
    "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]},
}
EVERYTHING: dict[str, Any] = {
    "imagePullSecrets": [{"name": "registry"}],
    "env": {"HTTPS_PROXY": "http://proxy.example:3128"},
    "envFrom": [{"secretRef": {"name": "cloud"}}],
    "volumes": [{"name": "more", "emptyDir": {}}],
    "volumeMounts": [{"name": "more", "mountPath": "/more"}],
    "resources": {"limits": {"memory": "1Gi"}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "nodeSelector": {"e": "f"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "persistence": {"storageClass": ""},
}
CASES = {
    "runner": ("runner", RUNNER),
    "runner-federated": ("runner", FEDERATED),
    "runner-dispatching": ("runner", DISPATCHING),
    "runner-everything": ("runner", DISPATCHING | EVERYTHING),
    "server": ("server", SERVER),
    "server-shared": ("server", SHARED),
    "server-everything": ("server", SHARED | EVERYTHING),
}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.of(platforms.need("kubernetes"))


@pytest.fixture
def helm(cluster: Cluster, tmp_path: Path) -> Helm:
    return Helm(cluster.kubeconfig, tmp_path)


@pytest.mark.feature("D8.kubernetes")
@pytest.mark.parametrize("case", CASES)
def test_helm_accepts_the_chart_and_the_cluster_accepts_its_objects(cluster: Cluster, helm: Helm, case: str) -> None:
    name, chosen = CASES[case]
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(chart(name)), helm.with_values(chosen))
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
    with cluster.namespace(**labels) as namespace:
        objects = list(helm.rendered(name, chosen).values())
        for each in objects:
            each["metadata"]["namespace"] = namespace
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        options = ("--dry-run=server", "--validate=strict", "--warnings-as-errors", "--filename", "-")
        applied = cluster.kubectl("apply", "--namespace", namespace, *options, text=text)
    assert len(applied.splitlines()) == len(objects)


@pytest.mark.feature("D8.kubernetes")
@pytest.mark.parametrize(
    ("name", "chosen", "reason"),
    [
        ("runner", {"credentials": {"existingSecret": "edge"}}, "server.url is required"),
        ("runner", {"server": {"url": "https://terracrew.example.com"}}, "set credentials.existingSecret to a Secret"),
        ("runner", RUNNER | {"credentials": FEDERATED["credentials"] | {"existingSecret": "edge"}}, "not both"),
        (
            "runner",
            RUNNER | {"credentials": {"federation": {"enabled": True, "organizationId": "org_1"}}},
            "credentials.federation.runnerPath is required",
        ),
        ("runner", RUNNER | {"dispatcher": {"type": "kubernetes"}}, "dispatcher.data.IMAGE is required"),
        ("runner", RUNNER | {"replica": 2}, "additional properties 'replica' not allowed"),
        ("server", {"replicas": 2}, "need PostgreSQL and an object store"),
        ("server", {"database": {"existingSecret": "database"}}, "masterKey.existingSecret is required"),
        ("server", {"ingress": {"enabled": True}}, "ingress.host is required"),
    ],
)
def test_a_chart_says_what_is_missing_or_wrong(helm: Helm, name: str, chosen: dict[str, Any], reason: str) -> None:
    assert reason in helm.refused(name, chosen)


@pytest.mark.feature("D8.kubernetes")
def test_a_runner_may_do_what_its_dispatcher_does_and_nothing_else(cluster: Cluster, helm: Helm) -> None:
    with cluster.namespace() as runners, cluster.namespace() as jobs, cluster.namespace() as others:
        dispatcher = DISPATCHING["dispatcher"] | {"namespace": jobs}
        helm.install("runner", runners, DISPATCHING | {"replicas": 0, "dispatcher": dispatcher})
        role = yaml.safe_load(cluster.kubectl("get", "role", "edge-dispatcher", "-n", jobs, "-o", "yaml"))
        granted = {(verb, what) for rule in role["rules"] for what in rule["resources"] for verb in rule["verbs"]}
        assert not any("*" in each for each in granted)

        def may(verb: str, what: str, namespace: str) -> bool:
            account = f"--as=system:serviceaccount:{runners}:edge"
            question = ("auth", "can-i", verb, what, "--namespace", namespace, account, "--quiet")
            return cluster.is_done(*question)

        assert all(may(verb, what, jobs) for verb, what in granted)
        for verb, what in (
            ("create", "pods"),
            ("list", "secrets"),
            ("update", "secrets"),
            ("watch", "secrets"),
            ("create", "pods/exec"),
            ("create", "pods/attach"),
            ("create", "serviceaccounts/token"),
            ("create", "rolebindings"),
            ("update", "jobs"),
            ("delete", "configmaps"),
            ("list", "nodes"),
        ):
            assert not may(verb, what, jobs), (verb, what)
        for verb, what in granted:
            assert not may(verb, what, others), (verb, what)
            assert not may(verb, what, runners), (verb, what)
        helm.uninstall(runners)


@pytest.mark.feature("D8.kubernetes")
def test_a_runner_without_the_dispatcher_has_no_rights_and_no_token(cluster: Cluster, helm: Helm) -> None:
    made = helm.rendered("runner", RUNNER)
    assert not {kind for kind, _ in made} & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    pod = made["StatefulSet", "edge"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.feature("D8.kubernetes")
@pytest.mark.parametrize("starts_runners", [False, True])
def test_a_server_has_a_token_for_the_cluster_only_if_it_starts_runners_there(helm: Helm, starts_runners: bool) -> None:
    made = helm.rendered("server", SERVER | {"serviceAccount": {"startsRunners": starts_runners}})
    assert not {kind for kind, _ in made} & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    pod = made["StatefulSet", "edge"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is starts_runners


@pytest.mark.feature("D8.kubernetes")
def test_network_policies_let_nobody_connect_to_runners_and_anybody_to_the_port_of_the_server(helm: Helm) -> None:
    policy = helm.rendered("runner", RUNNER)["NetworkPolicy", "edge"]["spec"]
    assert (policy["policyTypes"], policy["ingress"], policy["egress"]) == (["Ingress", "Egress"], [], [{}])
    rule = {"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]}
    policy = helm.rendered("runner", RUNNER | {"networkPolicy": {"egress": [rule]}})["NetworkPolicy", "edge"]["spec"]
    dns, other = policy["egress"]
    assert ([each["port"] for each in dns["ports"]], other) == ([53, 53], rule)
    policy = helm.rendered("runner", DISPATCHING)["NetworkPolicy", "edge-jobs"]["spec"]
    assert (policy["ingress"], policy["egress"]) == ([], [{}])
    policy = helm.rendered("server", SERVER)["NetworkPolicy", "edge"]["spec"]
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": "http"}]}]
    (ingress,) = helm.rendered("server", SHARED)["NetworkPolicy", "edge"]["spec"]["ingress"]
    assert ingress["from"] == SHARED["networkPolicy"]["from"]


@pytest.mark.feature("D8.kubernetes")
def test_a_server_with_a_volume_is_one_pod_and_servers_that_share_a_database_are_several(helm: Helm) -> None:
    made = helm.rendered("server", SERVER)
    assert made["StatefulSet", "edge"]["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] == "data"
    made = helm.rendered("server", SHARED)
    assert made["Deployment", "edge"]["spec"]["replicas"] == 3
    assert json.loads(made["ConfigMap", "edge"]["data"]["server.json"]) == {"retain_logs_days": 365}
    variables = {
        each["name"]: each for each in made["Deployment", "edge"]["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert variables["TERRACREW_SERVER_PUBLIC_URL"]["value"] == "https://terracrew.example.com"
    assert variables["TERRACREW_SERVER_ALLOWED_HOSTS"]["value"].split() == [
        "edge",
        "edge.crew",
        "edge.crew.svc",
        "edge.crew.svc.cluster.local",
        "crew.internal",
    ]
    assert "valueFrom" in variables["TERRACREW_SERVER_DATABASE_URL"]
