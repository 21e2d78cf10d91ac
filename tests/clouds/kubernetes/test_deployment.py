"""Deployments on a real cluster, by an identity that may do what its page shows and nothing else."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest

from terracrew import ids
from terracrew.clouds.contract import Canceled, CloudRefused
from terracrew.clouds.kubernetes import names, policies
from terracrew.clouds.model import StartRequest
from terracrew.kubernetes_api.api import KubernetesApi
from tests.clouds.kubernetes.bench import ACCOUNT, CloudBench, Steps, worker_token

pytestmark = [
    pytest.mark.platform("kubernetes"),
    pytest.mark.timeout(300),
]


class Cut(BaseException):
    """The process of the fleet is killed."""


def cut_at(number: int, monkeypatch: pytest.MonkeyPatch, *, is_done: bool) -> list[str]:
    """Kill the process at the request of this number, before or after the API server has done it. Returns what was asked for."""
    request, asked = KubernetesApi.request, list[str]()

    async def cut(self: KubernetesApi, method: str, path: str, body: Any, query: Mapping[str, str]) -> bytes:
        asked.append(f"{method} {path}")
        if len(asked) > number:
            raise Cut
        if len(asked) == number:
            if is_done:
                await request(self, method, path, body, query)
            raise Cut
        return await request(self, method, path, body, query)

    monkeypatch.setattr(KubernetesApi, "request", cut)
    return asked


def stored_token(bench: CloudBench, runner_id: str) -> str:
    secret = bench.cluster.get(bench.namespace, "secret", names.object_name(runner_id))
    return base64.b64decode(secret["data"][names.TOKEN_KEY]).decode()


async def test_a_deployment_is_made_once_found_again_and_removed_without_a_trace(bench: CloudBench) -> None:
    deployment, token, job = bench.deployment(), worker_token(), ids.new("fjb")
    steps = Steps()
    facts = await bench.cloud.deploy(deployment, token, job, steps)
    assert list(steps.done_steps) == ["namespace", "service_account", "secret", "trial"]
    assert (stored_token(bench, deployment.runner_id), facts["namespace"]) == (token, bench.namespace)
    name = names.object_name(deployment.runner_id)
    assert bench.names() == [f"secret/{name}", f"serviceaccount/{name}"]

    assert await bench.cloud.deploy(deployment, "", ids.new("fjb"), Steps()) == facts
    assert stored_token(bench, deployment.runner_id) == token, "an empty token keeps the one that is there"
    other = worker_token()
    assert await bench.cloud.deploy(deployment, other, ids.new("fjb"), Steps()) == facts
    assert stored_token(bench, deployment.runner_id) == other
    found = await bench.cloud.found()
    assert {(each.kind, each.runner_id, each.job_id) for each in found} == {
        ("secret", deployment.runner_id, job),
        ("service account", deployment.runner_id, job),
    }

    await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())
    assert (bench.names(), await bench.cloud.found()) == ([], [])
    await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())


async def test_a_deployment_that_is_killed_at_any_request_ends_well_the_next_time_and_nothing_exists_twice(
    bench: CloudBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_done in (False, True):
        number, is_cut = 0, True
        while is_cut:
            number += 1
            deployment, token, job = bench.deployment(), worker_token(), ids.new("fjb")
            with monkeypatch.context() as patch:
                asked = cut_at(number, patch, is_done=is_done)
                try:
                    await bench.cloud.deploy(deployment, token, job, Steps())
                    is_cut = False
                except Cut:
                    pass
            facts = await bench.cloud.deploy(deployment, worker_token(), job, Steps())
            assert facts["secret"] == facts["service_account"] == names.object_name(deployment.runner_id), asked
            selector = names.runner_selector(deployment)
            assert len(bench.names(selector=selector)) == 2, asked

            with monkeypatch.context() as patch:
                cut_at(number, patch, is_done=is_done)
                try:
                    await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())
                except Cut:
                    is_cut = True
            await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())
            assert bench.names(selector=selector) == [], asked
        assert number > 5


async def test_a_deployment_that_fails_half_way_removes_what_it_made_and_nothing_else(bench: CloudBench) -> None:
    steps, deployment = Steps(), bench.deployment()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    bench.cluster.apply(bench.namespace, quota)
    with pytest.raises(CloudRefused, match=r"exceeded quota.*Raise the ResourceQuota"):
        await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), steps)
    assert list(steps.failed_steps) == ["trial"]
    assert bench.names() == []
    [refused] = await bench.cloud.start(deployment, [StartRequest("tc-1")])
    assert getattr(refused, "code", "") == "missing", "its service account is not there"

    bench.kubectl("delete", "resourcequota", "none")
    await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    bench.cluster.apply(bench.namespace, quota)
    bench.cluster.wait("quota", lambda: "used" in bench.cluster.get(bench.namespace, "resourcequota", "none")["status"])
    [refused] = await bench.cloud.start(deployment, [StartRequest("tc-1")])
    assert getattr(refused, "code", "") == "quota"
    with pytest.raises(CloudRefused, match="exceeded quota"):
        await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    assert len(bench.names()) == 2, "what an earlier job has made stays"


async def test_a_canceled_deployment_removes_what_it_made(bench: CloudBench) -> None:
    class CanceledLater(Steps):
        def done(self, step: str, reference: str = "", words: str = "") -> None:
            super().done(step, reference, words)
            self.is_canceled = step == "secret"

    with pytest.raises(Canceled):
        await bench.cloud.deploy(bench.deployment(), worker_token(), ids.new("fjb"), CanceledLater())
    assert bench.names() == []


async def test_objects_of_strangers_are_never_used_changed_or_removed(bench: CloudBench) -> None:
    deployment = bench.deployment()
    name = names.object_name(deployment.runner_id)
    bench.kubectl("create", "secret", "generic", name, "--from-literal=worker-token=theirs")
    bench.kubectl("label", "secret", name, f"{names.RUNNER_LABEL}={deployment.runner_id}")
    with pytest.raises(CloudRefused, match="was not made for this runner"):
        await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    assert bench.names("serviceaccounts") == []
    await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())
    assert stored_token(bench, deployment.runner_id) == "theirs"

    pod = {"containers": [{"name": "a", "image": deployment.settings.image}], "terminationGracePeriodSeconds": 1}
    bench.cluster.apply(bench.namespace, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tc-1"}, "spec": pod})
    bench.kubectl("delete", "secret", name)
    await bench.cloud.deploy(deployment, worker_token(), ids.new("fjb"), Steps())
    [refused] = await bench.cloud.start(deployment, [StartRequest("tc-1")])
    assert "was not made by Terracrew" in getattr(refused, "words", "")
    with pytest.raises(CloudRefused, match="left alone"):
        await bench.cloud.stop(deployment, f"{bench.namespace}/tc-1", "a test")
    assert await bench.cloud.watch(deployment, []) == []
    await bench.cloud.destroy(deployment, ids.new("fjb"), Steps())
    assert "tc-1" in bench.kubectl("get", "pods", "--output", "name")


async def test_a_missing_permission_is_named_with_its_purpose_and_with_what_to_paste(bench: CloudBench) -> None:
    async def failure() -> tuple[str, str]:
        steps = Steps()
        await bench.cloud.check(steps)
        return steps.failed_steps.get("permissions", ("", ""))

    everything, found = len(policies.PERMISSIONS), ("", "")
    for missing in policies.PERMISSIONS:
        bench.grant(missing)
        expected = f"1 of {everything} are missing in the namespace {bench.namespace}: {missing}"
        async with asyncio.timeout(30):  # an API server learns of a Role a moment later
            while (found := await failure())[0] != expected:
                await asyncio.sleep(0.05)
        assert missing.purpose in found[1]
    assert "kind: RoleBinding" in found[1]
    assert f"name: {ACCOUNT}\n" in found[1]
    bench.kubectl("delete", "rolebinding", "--all")
    async with asyncio.timeout(30):
        while f"{everything} of {everything} are missing" not in (await failure())[0]:
            await asyncio.sleep(0.05)


async def test_a_connection_with_all_permissions_passes_every_check(bench: CloudBench) -> None:
    steps = Steps()
    assert await bench.cloud.check(steps, bench.deployment(max_instances=2)), steps.failed_steps
    assert list(steps.done_steps) == [
        *("sign_in", "other_subject", "namespace", "permissions", "quota", "trial", "image"),
    ]
    assert steps.done_steps["sign_in"][1] == f"as {bench.user}"
    assert "may do nothing" in steps.done_steps["other_subject"][1]
    assert bench.names() == [], "a test of the connection makes nothing"
