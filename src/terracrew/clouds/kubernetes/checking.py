"""Tests the connection to a cluster: who the identity is there, what it may do, and whether a runner would fit. Changes nothing."""

from collections.abc import Awaitable, Callable

from terracrew.clouds.contract import CloudRefused, CloudSilent, Reporter
from terracrew.clouds.kubernetes import manifests, names, policies, quantities
from terracrew.clouds.kubernetes.client import ClusterClient, ClusterRefused
from terracrew.clouds.kubernetes.namespaces import Namespace
from terracrew.clouds.kubernetes.policies import PERMISSIONS, Permission
from terracrew.clouds.model import CloudIdentity, Deployment, StartRequest
from terracrew.kubernetes_api.objects import (
    AnyObject,
    ResourceQuotaList,
    SelfSubjectAccessReview,
    SelfSubjectReview,
)

_WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_MAY_I = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_DEFAULT_ACCOUNT = "default"


class _Failed(Exception):
    """A check found something wrong."""

    def __init__(self, words: str, remedy: str = "") -> None:
        super().__init__(words)
        self.words, self.remedy = words, remedy


class Checking:
    def __init__(self, client: ClusterClient, namespace: Namespace, identity: CloudIdentity) -> None:
        self._client, self._namespace, self._identity = client, namespace, identity
        self._user = ""

    async def check(self, reporter: Reporter, deployment: Deployment | None) -> bool:
        async def step(name: str, words: str, check: Callable[[], Awaitable[str]]) -> bool:
            reporter.require_wanted()
            reporter.begin(name, words)
            try:
                reporter.done(name, words=await check())
            except _Failed as failure:
                reporter.failed(name, failure.words, failure.remedy)
            except ClusterRefused as refusal:
                reporter.failed(name, refusal.words, refusal.remedy)
            except (CloudRefused, CloudSilent) as error:
                reporter.failed(name, error.message)
            else:
                return True
            return False

        passed = [await step("sign_in", "Sign in", self._sign_in)]
        if self._client.cluster.way == "web_identity":
            passed.append(await step("other_subject", "Another subject is turned away", self._other_subject))
        passed.append(await step("namespace", "Namespace", self._namespace_exists))
        passed.append(await step("permissions", "Permissions", self._permissions))
        passed.append(await step("quota", "Quota", lambda: self._quota(deployment)))
        if deployment is not None:
            passed.append(await step("trial", "Trial of a pod", lambda: self._trial(deployment)))
            passed.append(await step("image", "Image", lambda: self._image(deployment)))
        return all(passed)

    async def _sign_in(self) -> str:
        self._user = await self._who(self._client)
        if self._client.cluster.way == "web_identity" and not self._user.endswith(self._identity.subject):
            raise _Failed(
                f"the API server takes this identity for {self._user}, which is not made of its subject {self._identity.subject}",
                "Let the name of the user come from the claim `sub`: otherwise several identities are the same user.\n"
                + policies.to_yaml([policies.authentication(self._identity)]),
            )
        return f"as {self._user}"

    async def _who(self, client: ClusterClient) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            return (await client.create(SelfSubjectReview, _WHO_AM_I, body)).status.user_info.username
        except ClusterRefused as refusal:
            if refusal.refusal_code != "identity":
                raise
            document = policies.to_yaml([policies.authentication(self._identity)])
            is_signed = self._client.cluster.way == "web_identity"
            raise _Failed(refusal.words, f"{refusal.remedy}\n{document}" if is_signed else refusal.remedy) from None

    async def _other_subject(self) -> str:
        """Sign in with a token of this server whose subject no identity has."""
        async with self._client.as_other_subject() as other:
            try:
                user = await self._who(other)
            except _Failed:
                return "its token is not accepted"
            allowed = [each for each in PERMISSIONS if await _may(other, each)]
        if user == self._user:
            raise _Failed(
                f"another subject is the same user, {user}",
                "Let the name of the user come from the claim `sub`.\n"
                + policies.to_yaml([policies.authentication(self._identity)]),
            )
        if allowed:
            raise _Failed(
                f"every token of this server may {', '.join(map(str, allowed))} in the namespace {self._client.namespace}",
                f"Bind the Role to the user {self._user or policies.username(self._identity)}, and not to a group of all users.",
            )
        return f"{user} may do nothing there"

    async def _namespace_exists(self) -> str:
        await self._namespace.require()
        return self._client.namespace

    async def _permissions(self) -> str:
        missing = [each for each in PERMISSIONS if not await _may(self._client, each)]
        if missing:
            lines = "\n".join(f"{each}: to {each.purpose}" for each in missing)
            document = policies.to_yaml(policies.objects(self._identity, self._user))
            raise _Failed(
                f"{len(missing)} of {len(PERMISSIONS)} are missing in the namespace {self._client.namespace}: "
                + ", ".join(map(str, missing)),
                f"{lines}\nApply this with `kubectl apply --filename -`:\n{document}",
            )
        return f"all {len(PERMISSIONS)} in the namespace {self._client.namespace}"

    async def _quota(self, deployment: Deployment | None) -> str:
        try:
            quotas = (await self._client.select(ResourceQuotaList, "resourcequotas")).items
        except ClusterRefused as refusal:
            if refusal.refusal_code == "not_permitted":
                return "cannot be seen: a start says whether it is exceeded"
            raise
        if not quotas:
            return "the namespace has none"
        if deployment is None:
            return "; ".join(
                f"{quota.metadata.name}: {_used(quota.status.used, quota.status.hard)}" for quota in quotas
            )
        room = min((quantities.room(quota.status, deployment.settings) for quota in quotas), key=lambda each: each.pods)
        wanted = deployment.settings.max_instances
        if room.pods < 1:
            raise _Failed(
                f"there is room for no instance of this size: {room.words}",
                "Raise the ResourceQuota of the namespace, or choose a smaller size.",
            )
        if room.pods < wanted:
            return f"room for {room.pods} of at most {wanted} instances: {room.words}"
        return f"room for all {wanted} instances"

    async def _trial(self, deployment: Deployment) -> str:
        # The service account of the runner is made by the deployment, so another one stands for it.
        account = deployment.settings.job_role or _DEFAULT_ACCOUNT
        name = f"{names.object_name(deployment.runner_id)}-trial"
        pod = manifests.pod(deployment, StartRequest(name), account=account)
        await self._client.create(AnyObject, "pods", pod, is_trial=True)
        return "the cluster accepts a pod of this size"

    async def _image(self, deployment: Deployment) -> str:
        if not deployment.settings.image:
            raise _Failed("the deployment names no image", "Choose one, or set one in the settings of the server.")
        return (
            f"{deployment.settings.image}: only a node can tell whether it can be pulled. The first instance says so."
        )


async def _may(client: ClusterClient, permission: Permission) -> bool:
    resource, _, part = permission.resource.partition("/")
    attributes = {"namespace": client.namespace, "verb": permission.verb, "resource": resource, "subresource": part}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return (await client.create(SelfSubjectAccessReview, _MAY_I, body)).status.allowed


def _used(used: dict[str, str], hard: dict[str, str]) -> str:
    return ", ".join(f"{used.get(name, '0')} of {most} {name}" for name, most in sorted(hard.items()))
