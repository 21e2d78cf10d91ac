"""The objects of a cloud-hosted runner, the names that they have, and what an identity has to be allowed."""

import json
from decimal import Decimal

import msgspec
import pytest
import yaml

from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.kubernetes import manifests, names, policies, quantities
from terracrew.clouds.model import KubernetesCluster, StartRequest
from terracrew.kubernetes_api.objects import ResourceQuotaStatus
from tests.clouds.kubernetes import examples
from tests.clouds.kubernetes.examples import RUNNER, deployment

TOKEN = "wkt_secret"


def test_a_pod_runs_once_for_as_long_as_it_wants_and_may_do_nothing_that_it_does_not_need() -> None:
    pod = manifests.pod(deployment(cpu_units=512, memory_mb=1024, architecture="arm64"), StartRequest("tc-1-1-0"))
    spec, [container] = pod["spec"], pod["spec"]["containers"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 120)
    assert "activeDeadlineSeconds" not in spec, "nobody ends a busy runner"
    assert spec["nodeSelector"]["kubernetes.io/arch"] == "arm64"
    assert container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "500m", "memory": "1024Mi"}
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == names.object_name(RUNNER)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["metadata"]["annotations"][names.INSTANCE_ANNOTATION] == pod["metadata"]["name"] == "tc-1-1-0"
    chosen = manifests.pod(deployment(job_role="deployer"), StartRequest("tc-1-1-0"))["spec"]
    assert (chosen["serviceAccountName"], chosen["automountServiceAccountToken"]) == ("deployer", True)


def test_the_worker_token_is_in_the_secret_and_in_no_pod() -> None:
    made = deployment()
    pod = manifests.pod(made, StartRequest("tc-1"))
    [reference] = [each for each in pod["spec"]["containers"][0]["env"] if "valueFrom" in each]
    secret = manifests.secret(made, TOKEN, "fjb_1")
    key = reference["valueFrom"]["secretKeyRef"]
    assert (key["name"], list(secret["data"])) == (secret["metadata"]["name"], [key["key"]])
    assert TOKEN not in json.dumps(pod)

    federated = deployment(credential="federated")
    pod = manifests.pod(federated, StartRequest("tc-1"))
    assert not [each for each in pod["spec"]["containers"][0]["env"] if "valueFrom" in each]
    [volume] = [each for each in pod["spec"]["volumes"] if "projected" in each]
    assert volume["projected"]["sources"][0]["serviceAccountToken"]["audience"] == federated.server_url


def test_objects_of_another_runner_or_organization_are_not_ours() -> None:
    made = deployment()
    labels = names.labels_of(made, "fjb_1")
    assert names.are_of(made, labels)
    for name in names.labels_of(made):
        assert not names.are_of(made, {each: text for each, text in labels.items() if each != name})
    other = msgspec.structs.replace(made, organization_id="org_3")
    assert not names.are_of(other, labels)
    assert len(names.object_name(RUNNER)) <= 63


@pytest.mark.parametrize("instance", ["", "Upper", "a_b", "-a", "a-", "a/b", "a.b", "a" * 64])
def test_an_instance_that_cannot_be_the_name_of_a_pod_is_noticed(instance: str) -> None:
    assert not names.is_pod_name(instance)
    assert names.is_pod_name("tc-0123456789ab-999999-999")


def test_what_has_no_meaning_in_a_cluster_is_named() -> None:
    assert manifests.settings_without_meaning(deployment()) == []
    chosen = deployment(is_spot=True, subnets=["subnet-1"])
    assert manifests.settings_without_meaning(chosen) == ["is_spot", "subnets"]


def test_the_objects_to_paste_bind_the_role_to_the_subject_of_one_identity() -> None:
    identity = examples.identity(KubernetesCluster(api_url="https://10.0.0.1", namespace="runners"))
    namespace, role, binding = list(yaml.safe_load_all(policies.to_yaml(policies.objects(identity))))
    assert namespace["metadata"] == {"name": "runners"}
    assert {(what, verb) for rule in role["rules"] for what in rule["resources"] for verb in rule["verbs"]} == {
        (each.resource, each.verb) for each in policies.PERMISSIONS
    }
    assert binding["subjects"] == [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"terracrew:{identity.subject}"}
    ]
    [entry] = policies.authentication(identity)["jwt"]
    assert entry["claimMappings"]["username"] == {"claim": "sub", "prefix": "terracrew:"}
    assert "--oidc-username-prefix=terracrew:" in policies.flags(identity)


def test_the_namespace_of_an_identity_that_is_the_servers_own_pod_names_the_identity() -> None:
    identity = examples.identity(KubernetesCluster(api_url="", namespace="runners", way="workload"))
    namespace, _role, binding = policies.objects(identity, "system:serviceaccount:terracrew:server")
    assert namespace["metadata"]["annotations"] == {names.IDENTITIES_ANNOTATION: identity.subject}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "namespace": "terracrew", "name": "server"}]


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", "0.5"), ("2Gi", str(2 << 30)), ("1e3", "1000"), ("3", "3"), ("2k", "2000"), ("", None), ("x", None)],
)
def test_amounts_are_read_as_kubernetes_writes_them(text: str, value: str | None) -> None:
    assert quantities.parse(text) == (None if value is None else Decimal(value))


def test_the_room_in_a_quota_is_that_of_what_it_has_least_of() -> None:
    settings = DeploymentSettings(cpu_units=512, memory_mb=1024)
    quota = ResourceQuotaStatus({"limits.memory": "4Gi", "cpu": "1", "pods": "9"}, {"cpu": "400m", "pods": "1"})
    assert quantities.room(quota, settings) == (1, "400m of 1 cpu are used")
    assert quantities.room(ResourceQuotaStatus({"pods": "0"}, {"pods": "3"}), settings).pods == 0
    assert quantities.room(ResourceQuotaStatus({"services": "0"}), settings).pods == 1000
