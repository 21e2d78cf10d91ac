"""The Job and the Secret of an attempt: what the pod may do, and where the token is."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.executor.container import paths
from terracrew.executor.container.user import KEPT_CAPABILITIES
from terracrew.protocol.start import INTERRUPT_SECONDS, ExecutorStart
from terracrew.runner.dispatch.kubernetes import manifests
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from tests.runner.conftest import granted

OWNER = manifests.PodOwner.for_key("key", "acme/runner", "one")
TEMPLATE = {
    "metadata": {"annotations": {"team": "platform"}, "labels": {manifests.KEY: "another", "tier": "jobs"}},
    "spec": {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "jobs", "operator": "Exists"}],
        "securityContext": {"fsGroup": 7},
        "volumes": [{"name": "certificates", "configMap": {"name": "certificates"}}],
        "containers": [
            {
                "name": "executor",
                "volumeMounts": [{"name": "certificates", "mountPath": "/etc/certificates"}],
                "securityContext": {"privileged": True, "readOnlyRootFilesystem": False},
                "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
            },
            {"name": "sidecar", "image": "sidecar:1"},
        ],
    },
}


def _job(**changes: Any) -> dict[str, Any]:
    return manifests.job(KubernetesSettings("image:1", **changes), OWNER, "job_1.1", INTERRUPT_SECONDS)


def _container(job: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in job["spec"]["template"]["spec"]["containers"] if each["name"] == "executor")


@pytest.mark.feature("D4.kubernetes", "X4.isolation")
@pytest.mark.parametrize("template", [{}, TEMPLATE])
def test_a_pod_may_do_no_more_than_it_needs(template: dict[str, Any]) -> None:
    job = _job(pod_template=template)
    spec = job["spec"]["template"]["spec"]
    assert (spec["restartPolicy"], spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (
        "Never",
        False,
        False,
    )
    assert _container(job)["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "runAsNonRoot": False,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": sorted(KEPT_CAPABILITIES)},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.feature("D4.kubernetes")
def test_a_template_adds_to_the_pod_and_never_replaces_what_terracrew_needs() -> None:
    pod = _job(pod_template=TEMPLATE)["spec"]["template"]
    spec = pod["spec"]
    assert pod["metadata"]["annotations"] == {"team": "platform"}
    assert pod["metadata"]["labels"] == {**OWNER.labels("job_1.1"), "tier": "jobs"}
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["securityContext"] == {"fsGroup": 7}
    assert {each["name"] for each in spec["volumes"]} == {"certificates", "files", "tmp", "start"}
    assert {each["name"] for each in spec["containers"]} == {"executor", "sidecar"}
    container = _container(_job(pod_template=TEMPLATE))
    assert {each["mountPath"] for each in container["volumeMounts"]} == {
        "/etc/certificates",
        "/terracrew",
        "/tmp",
        manifests.START_FOLDER,
    }
    assert [each["name"] for each in container["env"]] == ["HTTPS_PROXY", "TERRACREW_POD_UID"]
    assert _job() == _job(pod_template={}), "a template is not changed by its use"


@pytest.mark.feature("D4.kubernetes")
def test_a_job_makes_one_pod_and_never_another() -> None:
    spec = _job()["spec"]
    assert (spec["backoffLimit"], spec["completions"], spec["podReplacementPolicy"]) == (0, 1, "Failed")
    [arguments] = [_container(_job())["args"]]
    assert "file:/run/terracrew-start/start-$(TERRACREW_POD_UID).json" in arguments


@pytest.mark.feature("D4.kubernetes")
def test_resources_service_account_and_grace_are_set() -> None:
    job = _job(
        memory_request="512Mi",
        memory_limit="2Gi",
        cpu_limit="1",
        service_account="deployer",
        image_pull_secrets=["pull"],
        pod_template={"spec": {"terminationGracePeriodSeconds": 900}},
    )
    spec = job["spec"]["template"]["spec"]
    assert _container(job)["resources"] == {"requests": {"memory": "512Mi"}, "limits": {"memory": "2Gi", "cpu": "1"}}
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("deployer", True)
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["terminationGracePeriodSeconds"] == 900
    assert _job()["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= sum(INTERRUPT_SECONDS)


@pytest.mark.feature("D6.token")
def test_the_token_is_only_in_the_secret_which_names_one_pod(tmp_path: Path) -> None:
    start = ExecutorStart("http://server", str(tmp_path), "", "", "", {}, granted())
    assert start.granted
    secret = manifests.secret(OWNER, "job_1.1", "job-uid", "pod-uid", start)
    assert list(secret["data"]) == ["start-pod-uid.json"]
    assert json.loads(base64.b64decode(secret["data"]["start-pod-uid.json"]))["server_url"] == "http://server"
    assert secret["immutable"]
    [reference] = secret["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"], reference["uid"]) == ("Job", OWNER.name("job_1.1"), "job-uid")
    credentials = start.granted.credentials
    for text in (credentials.hub, credentials.api):
        assert text not in json.dumps(_job())


def test_names_and_labels_are_allowed_by_kubernetes() -> None:
    owner = manifests.PodOwner.for_key("key", "acme/" + "x" * 200, "é")
    assert len(owner.name("job_" + "A" * 60 + ".12")) <= 63
    assert owner.name("a").replace("-", "").isalnum()
    assert owner.name("a") != owner.name("A")
    assert all(len(value) <= 63 and "/" not in value for value in owner.labels("job_1.1").values())
    assert owner.key != manifests.PodOwner.for_key("another", owner.runner, "é").key


@pytest.mark.feature("J14.persist")
def test_a_template_mounts_the_cache_of_executors() -> None:
    cache = {"name": "cache", "mountPath": str(paths.SHARED_CACHE)}
    claim = {"name": "cache", "persistentVolumeClaim": {"claimName": "terracrew-cache"}}
    job = _job(
        pod_template={"spec": {"containers": [{"name": "executor", "volumeMounts": [cache]}], "volumes": [claim]}}
    )
    mounted = {each["mountPath"]: each["name"] for each in _container(job)["volumeMounts"]}
    assert mounted[str(paths.SHARED_CACHE)] == "cache"
    assert {str(paths.ROOT), manifests.START_FOLDER} < set(mounted)
    assert claim in job["spec"]["template"]["spec"]["volumes"]
