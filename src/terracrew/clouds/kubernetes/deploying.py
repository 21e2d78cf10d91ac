"""Makes what the pods of a runner need, and removes it. Nothing runs all the time: a sleeping runner is a Secret and a service account."""

import asyncio
import contextlib
import time
from collections.abc import Generator
from typing import Any, TypeVar

import msgspec

from terracrew.clouds.contract import Canceled, CloudRefused, CloudSilent, Reporter
from terracrew.clouds.kubernetes import manifests, names
from terracrew.clouds.kubernetes.client import ClusterClient, ClusterRefused
from terracrew.clouds.kubernetes.names import TOKEN_KEY
from terracrew.clouds.kubernetes.namespaces import Namespace
from terracrew.clouds.model import Deployment, StartRequest
from terracrew.kubernetes_api.objects import AnyObject, ObjectList, ObjectMetadata

_END_SECONDS = 180.0
"""How long pods may take to end. They have two minutes for it, and their nodes need some time."""
_LOOK_SECONDS = 1.0
_EXISTS = "exists"


class _StoredSecret(msgspec.Struct, frozen=True):
    metadata: ObjectMetadata
    data: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<Secret {self.metadata.name}>"


T = TypeVar("T", AnyObject, _StoredSecret)


class _Step:
    """What a step says when it has ended well."""

    def __init__(self) -> None:
        self.reference, self.words = "", ""


@contextlib.contextmanager
def _step(reporter: Reporter, name: str, words: str) -> Generator[_Step]:
    """Begin a step, and end it with what happens inside. An error goes on."""
    reporter.require_wanted()
    reporter.begin(name, words)
    made = _Step()
    try:
        yield made
    except ClusterRefused as refusal:
        reporter.failed(name, refusal.words, refusal.remedy)
        raise
    except (Canceled, CloudRefused, CloudSilent) as error:
        reporter.failed(name, error.message)
        raise
    reporter.done(name, made.reference, made.words)


class _Made(msgspec.Struct, frozen=True):
    """An object that the current job has made."""

    kind: str
    path: str
    uid: str
    """Empty if there was no answer: it may have been made."""


class Deploying:
    def __init__(self, client: ClusterClient, namespace: Namespace) -> None:
        self._client, self._namespace = client, namespace

    async def deploy(
        self, deployment: Deployment, worker_token: str, job_id: str, reporter: Reporter
    ) -> dict[str, str]:
        made: list[_Made] = []
        try:
            return await self._deploy(_Job(self._client, deployment, job_id, made), worker_token, reporter)
        except (Canceled, CloudRefused, CloudSilent) as error:
            if left := await self._unwind(made, job_id, reporter):
                words = (
                    f"{error.message} What it made before is left, because it could not be removed: {', '.join(left)}."
                )
                raise type(error)(words) if not isinstance(error, ClusterRefused) else CloudRefused(words) from None
            raise

    async def _deploy(self, job: "_Job", worker_token: str, reporter: Reporter) -> dict[str, str]:
        deployment, namespace = job.deployment, self._client.namespace
        with _step(reporter, "namespace", "Namespace") as found:
            if not deployment.settings.image:
                raise CloudRefused(
                    "the deployment names no image: choose one, or set one in the settings of the server"
                )
            await self._namespace.require()
            found.reference = namespace
        for name in manifests.settings_without_meaning(deployment):
            reporter.line(f"{name} is set, and has no meaning in a cluster of Kubernetes")
        if deployment.server_url.startswith("http://"):
            reporter.line(f"{deployment.server_url} has no TLS: instances send their token to it unencrypted")
        with _step(reporter, "service_account", "Service account") as found:
            found.reference, found.words = await job.ensure_service_account()
        with _step(reporter, "secret", "Worker token") as found:
            found.reference, found.words = await job.ensure_token(worker_token)
        with _step(reporter, "trial", "Trial of a pod") as found:
            # The cluster checks it against quotas and rules, and makes nothing.
            pod = manifests.pod(deployment, StartRequest(f"{names.object_name(deployment.runner_id)}-trial"))
            await self._client.create(AnyObject, "pods", pod, is_trial=True)
            found.words = "the cluster accepts a pod of this size"
        reporter.require_wanted()
        return {
            "namespace": namespace,
            "service_account": names.service_account(deployment),
            "secret": names.object_name(deployment.runner_id) if deployment.settings.credential == "secret" else "",
            "image": deployment.settings.image,
        }

    async def _unwind(self, made: list[_Made], job_id: str, reporter: Reporter) -> list[str]:
        """Remove what the current job has made. Returns the names of what is left."""
        left: list[str] = []
        for each in reversed(made):
            name = f"{each.kind} {each.path.rpartition('/')[2]}"
            try:
                if uid := each.uid or await self._uid_of_job(each.path, job_id):
                    await self._client.delete(each.path, uid)
                    reporter.line(f"removed the {name} again")
            except (CloudRefused, CloudSilent) as error:
                left.append(name if each.uid else f"{name}, if it was made")
                reporter.line(f"the {left[-1]} could not be removed: {error.message}")
        return left

    async def _uid_of_job(self, path: str, job_id: str) -> str:
        """Return the object at this place if the current job has made it."""
        found = await self._client.get(AnyObject, path)
        return found.metadata.uid if found and found.metadata.labels.get(names.JOB_LABEL) == job_id else ""

    async def destroy(self, deployment: Deployment, reporter: Reporter) -> None:
        left: list[str] = []
        for path, words in (("pods", "Pods"), ("secrets", "Worker token"), ("serviceaccounts", "Service account")):
            reporter.require_wanted()
            reporter.begin(path, words)
            try:
                count = await self._remove_all(deployment, path, reporter)
            except (CloudRefused, CloudSilent) as error:
                reporter.failed(path, error.message)
                left.append(error.message)
            else:
                reporter.done(path, words=f"{count} removed" if count else "there is none")
        if left:
            raise CloudRefused(f"not everything was removed: {'; '.join(left)}")

    async def _remove_all(self, deployment: Deployment, path: str, reporter: Reporter) -> int:
        """Remove all objects of a kind that have the runner's labels, and return when they are gone."""
        selector, removed = names.runner_selector(deployment), set[str]()
        until = time.monotonic() + _END_SECONDS
        while found := (await self._client.select(ObjectList, path, selector)).items:
            for each in found:
                if each.metadata.uid not in removed:
                    removed.add(each.metadata.uid)
                    reporter.line(f"removing {path.rstrip('s')} {each.metadata.name}")
                    await self._client.delete(f"{path}/{each.metadata.name}", each.metadata.uid)
            if time.monotonic() > until:
                left = ", ".join(each.metadata.name for each in found)
                raise CloudRefused(
                    f"these {path} did not end within {_END_SECONDS:.0f} seconds: {left}. Their nodes may be gone."
                )
            reporter.require_wanted()
            await asyncio.sleep(_LOOK_SECONDS if path == "pods" else 0)
        return len(removed)


class _Job:
    """One deployment job: it uses what exists, makes what is missing, and notes what it has made."""

    def __init__(self, client: ClusterClient, deployment: Deployment, job_id: str, made: list[_Made]) -> None:
        self._client, self.deployment, self._job_id, self._made = client, deployment, job_id, made
        self._name = names.object_name(deployment.runner_id)

    async def ensure_service_account(self) -> tuple[str, str]:
        named = self.deployment.settings.job_role
        if named:
            if await self._client.get(AnyObject, f"serviceaccounts/{named}") is None:
                raise CloudRefused(f"there is no service account {named} in the namespace {self._client.namespace}")
            return named, "exists, and is used"
        manifest = manifests.service_account(self.deployment, self._job_id)
        _, words = await self._ensure(AnyObject, "service account", "serviceaccounts", manifest)
        return self._name, words

    async def ensure_token(self, worker_token: str) -> tuple[str, str]:
        if self.deployment.settings.credential == "federated":
            return "", await self._remove_token()
        if not worker_token:
            found = await self._find(_StoredSecret, "secret", f"secrets/{self._name}")
            if found is None or TOKEN_KEY not in found.data:
                raise CloudRefused(
                    f"the Secret {self._name} has no worker token, and this job has none: remove the runner, and deploy it again"
                )
            return self._name, "has a token"
        manifest = manifests.secret(self.deployment, worker_token, self._job_id)
        found, words = await self._ensure(_StoredSecret, "secret", "secrets", manifest)
        if words == _EXISTS:
            change = {"metadata": {"uid": found.metadata.uid}, **manifests.token_data(worker_token)}
            await self._client.ask(AnyObject, "PATCH", f"secrets/{self._name}", body=change)
            words = "has a new token"
        return self._name, words

    async def _remove_token(self) -> str:
        """Remove the token of an earlier deployment: a federated runner has none."""
        found = await self._find(_StoredSecret, "secret", f"secrets/{self._name}")
        if found is None:
            return "none: pods sign in with the token of their service account"
        await self._client.delete(f"secrets/{self._name}", found.metadata.uid)
        return "removed: pods sign in with the token of their service account"

    async def _ensure(self, kind: type[T], words: str, path: str, manifest: dict[str, Any]) -> tuple[T, str]:
        """Return the object of this name, and whether it was made now. Raises CloudRefused if it is somebody else's."""
        place = f"{path}/{self._name}"
        found = await self._find(kind, words, place)
        if found is None:
            try:
                created = await self._client.create(kind, path, manifest)
            except CloudSilent:
                self._note(_Made(words, place, ""))
                raise
            except ClusterRefused as refusal:
                if not refusal.exists_already:
                    raise
                found = await self._find(kind, words, place)  # the answer to an earlier request was lost
                if found is None:
                    raise
            else:
                self._note(_Made(words, place, created.metadata.uid))
                return created, "made"
        return found, _EXISTS

    async def _find(self, kind: type[T], words: str, place: str) -> T | None:
        found = await self._client.get(kind, place)
        if found is None:
            return None
        if not names.are_of(self.deployment, found.metadata.labels):
            raise CloudRefused(
                f"the {words} {self._name} in the namespace {self._client.namespace} exists and was not made for this runner. "
                "Remove it, or choose another namespace."
            )
        if found.metadata.labels.get(names.JOB_LABEL) == self._job_id:
            # An earlier attempt of this job has made it.
            self._note(_Made(words, place, found.metadata.uid))
        return found

    def _note(self, made: _Made) -> None:
        if made not in self._made:
            self._made.append(made)
