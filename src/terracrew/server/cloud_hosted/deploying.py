"""Deploys, changes, wakes and removes cloud-hosted runners: it writes the records and queues the jobs of the fleet that do the work."""

from datetime import UTC, datetime

import msgspec

from terracrew import __version__
from terracrew.api import fields
from terracrew.api.deployments import (
    DeployAgain,
    DeployedRunner,
    DeploymentSettings,
    DeploymentView,
    DestroyRequest,
    NewCloudRunner,
)
from terracrew.api.fleet_jobs import FleetJob, FleetJobType, NewFleetJob
from terracrew.api.runners import NewRunner, Runner, RunnerChange
from terracrew.clouds.model import AwsAccount
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.cloud_hosted import describing, setting_rules, starting
from terracrew.server.cloud_identities import service as identities
from terracrew.server.cloud_identities import store as identity_store
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.fleet_jobs import reads as fleet_reads
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules as release_rules
from terracrew.server.releases import store as releases
from terracrew.server.runners import service as runners
from terracrew.server.runners import view_reads
from terracrew.server.tree.groups import service as groups

FORCE = "force"
"""The word in the specification of a DESTROY_WORKER that does not wait for jobs."""
NEW_TOKEN = "new_token"  # noqa: S105 - the name of a choice
"""The word in the specification of an UPDATE_WORKER that replaces the worker token."""
FORMER = "former_settings"
"""The settings before an UPDATE_WORKER, which apply again if it does not succeed."""
VERSION, IMAGE = "version", "image"
"""The words in the specification of a job that deploys for the version to which it updates, and for the image that it deploys if people
chose none. It stays the same in each attempt."""
WAS_DRAINING = "was_draining"
"""The word in the specification of a DESTROY_WORKER of a runner that somebody had drained before."""


async def deploy(tx: Tx, who: Principal, new: NewCloudRunner, default_image: str) -> DeployedRunner:
    """Create a cloud-hosted runner and queue its deployment. It is ONLINE when the job has succeeded."""
    group = await groups.find(tx, who, new.group)
    if group.organization_id != who.organization_id:
        raise groups.unseen(new.group)  # the identities are those of the caller's organization
    identity = await identities.hold_usable(tx, who, new.identity, group.path)
    _check(new.settings, identity, new.service_account, default_image)
    record = fields.created(
        NewRunner, new, group=group.id, max_jobs=new.settings.capacity, allow_multiple_instances=True
    )
    cloud = identity.settings
    region = cloud.region if isinstance(cloud, AwsAccount) else ""  # a cluster has none
    runner = await runners.create_cloud_hosted(tx, who, record, region)
    await store.insert(
        tx, CloudDeployment(runner_id=runner.id, identity_id=identity.id, settings=new.settings, status="new")
    )
    spec = {} if new.settings.image else {IMAGE: describing.of_version(default_image, __version__)}
    return await _queued(tx, who, runner, identity, FleetJobType.DEPLOY_WORKER, spec)


async def deploy_again(
    tx: Tx, who: Principal, reference: str, wanted: DeployAgain, default_image: str
) -> DeployedRunner:
    """Deploy a runner again, with other settings if there are any. Its instances finish their jobs on what they were started with."""
    runner, before = await _held(tx, who, reference)
    if before.status == "removing":
        raise Conflict(f"`{runner.path}` is being removed: cancel that job first")
    spec = {NEW_TOKEN: "true"} if fields.given(wanted).get("new_token") else {}
    spec[FORMER] = msgspec.json.encode(before.settings).decode()
    settings = fields.changed(before.settings, wanted)
    identity = await identity_store.get(tx, before.identity_id)
    _check(settings, identity, runner.service_account_id, default_image)
    if not settings.image:
        spec[IMAGE] = _image_again(before, default_image)
    await store.save(tx, before, msgspec.structs.replace(before, settings=settings))
    if settings.capacity != runner.max_jobs:
        await runners.change(tx, who, runner.id, RunnerChange(max_jobs=settings.capacity))
    is_first = before.status == "new" or not before.facts
    type_ = FleetJobType.DEPLOY_WORKER if is_first else FleetJobType.UPDATE_WORKER
    return await _queued(tx, who, runner, identity, type_, spec)


async def update(tx: Tx, who: Principal, reference: str, version: str, default_image: str) -> FleetJob:
    """Deploy a release for a runner. Its instances finish their jobs, and are replaced by new ones.

    Raises Conflict if people chose the image themselves, or if nothing is deployed.
    """
    runner, before = await _held(tx, who, reference)
    if reason := by_hand_reason(before):
        raise Conflict(f"`{runner.path}` is updated by hand: {reason}")
    if before.status == "removing":
        raise Conflict(f"`{runner.path}` is being removed: cancel that job first")
    if before.status != "deployed":
        raise Conflict(f"`{runner.path}` is not deployed, so there is nothing to update")
    release = await releases.get(tx, version)
    if release.is_withdrawn:
        raise Conflict(f"{version} was withdrawn: {release.withdrawn_reason}")
    image = describing.of_release(release, default_image)
    if not image:
        raise Conflict(no_image_words(version))
    identity = await identity_store.get(tx, before.identity_id)
    spec = {VERSION: version, IMAGE: image, FORMER: msgspec.json.encode(before.settings).decode()}
    return (await _queued(tx, who, runner, identity, FleetJobType.UPDATE_WORKER, spec)).job


def by_hand_reason(deployment: CloudDeployment) -> str:
    """Return why the server cannot update a cloud-hosted runner to a release; empty if it can."""
    return "its image is your own" if deployment.settings.image else ""


def no_image_words(version: str) -> str:
    return (
        f"there is no image of {version}: the release has none, and cloud_runner_image in the server's settings does not have "
        f"`{describing.VERSION_MARK}` in it"
    )


def _image_again(before: CloudDeployment, default_image: str) -> str:
    """Return the image of a runner that is deployed again: that of a newer release stays, and that of the server replaces others."""
    if before.image and release_rules.is_outdated(__version__, before.version):
        return before.image
    return describing.of_version(default_image, __version__)


async def destroy(tx: Tx, who: Principal, reference: str, wanted: DestroyRequest) -> DeployedRunner:
    """Remove a runner with everything that was made for it. It drains first; by force, its jobs count as lost."""
    runner, before = await _held(tx, who, reference)
    identity = await identity_store.get(tx, before.identity_id)
    if not runner.is_draining:
        await runners.change(tx, who, runner.id, RunnerChange(is_draining=True))
    await store.save(tx, before, msgspec.structs.replace(before, status="removing"))
    spec = {FORCE: "true"} if wanted.force else {}
    spec |= {WAS_DRAINING: "true"} if runner.is_draining else {}
    return await _queued(tx, who, runner, identity, FleetJobType.DESTROY_WORKER, spec)


async def wake(tx: Tx, who: Principal, reference: str) -> DeploymentView:
    """Start an instance of a runner that sleeps, without a job that needs it. It sleeps again if none comes."""
    runner, deployment = await _held(tx, who, reference)
    if deployment.status != "deployed":
        raise Conflict(f"`{runner.path}` is not deployed, so nothing of it can be started")
    if runner.is_draining or runner.is_disabled:
        raise Conflict(f"`{runner.path}` takes no jobs, so nothing of it is started: it is drained or disabled")
    now = tx.moment
    if not deployment.can_wake(now):
        raise Conflict(
            f"the cloud has just refused to start an instance of `{runner.path}`: {deployment.refusal_words}"
        )
    if started := await starting.wake(tx, runner.id):
        details = {"path": runner.path, "instance": started[0].name}
        await audit.record(tx, who, "runner.wake", "runner", runner.id, details, organization_id=runner.organization_id)
    return await show(tx, who, runner.id)


async def show(tx: Tx, who: Principal, reference: str) -> DeploymentView:
    """Return what was deployed for a runner."""
    runner = await runners.find(tx, who, reference, Verb.RUNNER_READ)
    deployment = await store.get(tx, runner.id)
    if deployment is None:
        raise NotFound(f"nothing is deployed for `{runner.path}`: it is {runner.type}")
    return await view(tx, runner, deployment)


async def view(tx: Tx, runner: Runner, deployment: CloudDeployment) -> DeploymentView:
    """Return what was deployed for a runner that the caller may see."""
    identity = await identity_store.get(tx, deployment.identity_id)
    return fields.created(
        DeploymentView,
        deployment,
        path=runner.path,
        kind=identity.kind,
        identity=identity.path,
        region=runner.region or "",
        image=deployment.settings.image or deployment.image,
        refusal=deployment.refusal_words,
        typical_start_seconds=deployment.typical_start_seconds,
        sleeps_at=await _sleeps_at(tx, deployment),
        job=await fleet_reads.newest(tx, runner.id),
        instances=await reads.instances(tx, runner.id),
    )


async def _sleeps_at(tx: Tx, deployment: CloudDeployment) -> datetime | None:
    idle_since = None if deployment.settings.min_instances else await reads.idle_since(tx, deployment.runner_id)
    return None if idle_since is None else datetime.fromtimestamp(idle_since + deployment.settings.idle_seconds, UTC)


async def _held(tx: Tx, who: Principal, reference: str) -> tuple[Runner, CloudDeployment]:
    runner = await runners.hold(tx, who, reference)
    deployment = await store.hold(tx, runner.id)
    if deployment is None:
        raise _self_hosted(runner)
    return runner, deployment


async def _queued(
    tx: Tx,
    who: Principal,
    runner: Runner,
    identity: IdentityRecord,
    type: FleetJobType,  # noqa: A002
    spec: dict[str, str] | None = None,
) -> DeployedRunner:
    job: FleetJob = await fleet_jobs.create(
        tx,
        who,
        NewFleetJob(
            type=type,
            organization_id=runner.organization_id or "",
            group_id=runner.group_id or "",
            target_id=runner.id,
            target_name=runner.path,
            runner_id=runner.id,
            identity_id=identity.id,
            spec=spec or {},
        ),
    )
    found = await runners.find(tx, who, runner.id, Verb.RUNNER_READ)
    return DeployedRunner(await view_reads.view(tx, found), job)


def _check(settings: DeploymentSettings, identity: IdentityRecord, account: str | None, default_image: str) -> None:
    setting_rules.check(settings, identity.settings)
    if not settings.image and not default_image:
        raise Invalid.in_field(
            "settings.image",
            "name the image of the runner, where its cloud can pull it (`make images` builds one), or set "
            "cloud_runner_image in the server's settings",
        )
    if settings.min_instances > settings.max_instances:
        raise Invalid.in_field(
            "min_instances", f"{settings.min_instances} is more than max_instances, which is {settings.max_instances}"
        )
    if settings.credential == "federated" and account is None:
        raise Invalid.in_field(
            "service_account", "instances that are federated need the service account that trusts their role"
        )


def _self_hosted(runner: Runner) -> Conflict:
    return Conflict(f"`{runner.path}` is {runner.type}: only runners that were deployed in a cloud can do this")
