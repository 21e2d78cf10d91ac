"""What DEPLOY_WORKER and UPDATE_WORKER mean: the cloud makes what instances need, and one instance proves that it works."""

import time
from collections.abc import Mapping, Sequence

import msgspec

from terracrew import ids
from terracrew.clouds.contract import Canceled, CloudRefused
from terracrew.clouds.model import (
    CloudIdentity,
    Deployment,
    DeploymentSettings,
    InstanceRefused,
    InstanceState,
    StartRequest,
)
from terracrew.errors import Conflict, Superseded, TerracrewError
from terracrew.fleet.messages import DeployWork, DestroyWork
from terracrew.server.cloud_hosted.cloud_calls import CloudCalls
from terracrew.server.cloud_hosted.deploying import FORMER, NEW_TOKEN
from terracrew.server.cloud_hosted.describing import Described, ServerFacts, describe
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.model import CloudInstance
from terracrew.server.fleet_jobs.handlers import FleetGrant, ServerReporter
from terracrew.server.fleet_jobs.model import FleetJob, FleetJobStatus, FleetJobType
from terracrew.server.fleet_process.link import FleetLost
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runners import service as runners
from terracrew.server.runners.model import RunnerChange
from terracrew.server.secrets.keyring import Keyring

FIRST_INSTANCE, HELLO = "first_instance", "hello"
MAX_HELLO_SECONDS = 600.0
"""How long the first instance may take until it says hello."""
LOOK_SECONDS = 1.0
WATCH_SECONDS = 4.0
"""How often the database and the cloud are asked how far the first instance is."""
MAX_SHOWN_LINES = 20


class DeployHandler:
    later_steps: Sequence[tuple[str, str]] = ((FIRST_INSTANCE, "First instance"), (HELLO, "Says hello"))

    def __init__(self, server: ServerFacts, keys: Keyring, calls: CloudCalls) -> None:
        self._server, self._keys, self._calls = server, keys, calls

    async def on_claim(self, tx: Tx, job: FleetJob) -> FleetGrant:
        found = await described(tx, job, self._server)
        if job.is_unwinding and is_first(job):
            return FleetGrant(found.identity, DestroyWork(found.deployment))
        return FleetGrant(found.identity, DeployWork(found.deployment, await self._token(tx, job, found.deployment)))

    async def _token(self, tx: Tx, job: FleetJob, deployment: Deployment) -> str:
        """Make the token of the instances, unless the cloud has one that the present instances use, or they are federated.

        Every attempt of a job makes the same one, so that the instance which an earlier attempt has started can still say hello.
        """
        is_kept = deployment.facts and job.spec.get(NEW_TOKEN) != "true"
        if deployment.settings.credential == "federated" or is_kept:
            return ""
        token = f"tcw_{self._keys.checksum(job.id.encode(), 'worker token of a deployment')}"
        await runners.set_cloud_token(tx, deployment.runner_id, token)
        return token

    async def before(self, job: FleetJob, reporter: ServerReporter) -> None:
        """There is nothing to wait for: what runs goes on beside a deployment."""

    async def after(self, job: FleetJob, facts: Mapping[str, str], reporter: ServerReporter) -> dict[str, str]:
        """Start one instance with what was made, and wait until it says hello. Without that, nothing is changed."""
        found = await reporter.write(lambda tx: described(tx, job, self._server))
        made = msgspec.structs.replace(found.deployment, facts=dict(facts))
        try:
            await self._prove(job, found.identity, made, reporter)
        except (FleetLost, Superseded):
            raise  # another attempt goes on with what was made
        except TerracrewError:
            if is_first(job):
                reporter.line("What was made is removed again.")
                await reporter.run(DestroyWork(made))
            raise
        return dict(facts)

    async def _prove(
        self, job: FleetJob, identity: CloudIdentity, deployment: Deployment, reporter: ServerReporter
    ) -> None:
        name = proof_name(job)
        reporter.begin(FIRST_INSTANCE, "First instance")
        if await reporter.write(
            lambda tx: _has_said_hello(tx, job, name)
        ):  # in an earlier attempt, and it may have left since
            self._proven(name, "", 0.0, reporter)
            return
        [answer] = await self._calls.start(identity, deployment, [StartRequest(name)])
        if isinstance(answer, InstanceRefused):
            reporter.failed(FIRST_INSTANCE, answer.words)
            raise CloudRefused(f"the first instance could not be started: {answer.words}")
        reference = answer.reference
        await reporter.write(lambda tx: _note_start(tx, job, name, reference))
        reporter.describe(FIRST_INSTANCE, "accepted by the cloud", reference)
        try:
            await self._until_hello(identity, deployment, name, reference, reporter)
        except (CloudRefused, Canceled) as error:
            reason = error.message
            if await reporter.write(lambda tx: _give_up(tx, job, name, reason)):
                await self._stop(identity, deployment, reference, reason)
                raise
            reporter.line("The first instance has just said hello, and may have a job: it is not stopped.")
            self._proven(name, reference, 0.0, reporter)

    def _proven(self, name: str, reference: str, seconds: float, reporter: ServerReporter) -> None:
        took = f"{seconds:.0f} s" if seconds else ""
        reporter.done(FIRST_INSTANCE, reference, took)
        reporter.begin(HELLO, "Says hello")
        reporter.done(HELLO, name, took)

    async def _until_hello(
        self,
        identity: CloudIdentity,
        deployment: Deployment,
        name: str,
        reference: str,
        reporter: ServerReporter,
    ) -> None:
        began, watched, is_running = time.monotonic(), float("-inf"), False
        while True:
            connected = await reporter.write(lambda tx: reads.connected_names(tx, deployment.runner_id))
            seconds = time.monotonic() - began
            if name in connected:
                self._proven(name, reference, seconds, reporter)
                return
            if time.monotonic() - watched > WATCH_SECONDS:
                watched = time.monotonic()
                state = await self._state(identity, deployment, reference)
                if state is not None and state.phase == "ended":
                    self._report_end(state, HELLO if is_running else FIRST_INSTANCE, reporter)
                if state is not None and state.phase == "running" and not is_running:
                    is_running = True
                    reporter.done(FIRST_INSTANCE, reference, f"{seconds:.0f} s")
                    reporter.begin(HELLO, "Says hello")
                elif state is not None and not is_running:
                    reporter.describe(
                        FIRST_INSTANCE, f"{state.words or state.phase}, {seconds:.0f} s so far", reference
                    )
            if seconds > MAX_HELLO_SECONDS:
                words = f"the first instance did not say hello within {MAX_HELLO_SECONDS / 60:.0f} minutes"
                remedy = f"check that it can reach {deployment.server_url} from its network"
                reporter.failed(HELLO if is_running else FIRST_INSTANCE, words, remedy)
                raise CloudRefused(f"{words}: {remedy}")
            await reporter.wait(LOOK_SECONDS)

    async def _state(self, identity: CloudIdentity, deployment: Deployment, reference: str) -> InstanceState | None:
        """Return what the cloud says about the first instance; None if it does not answer, or does not know it yet."""
        try:
            found = await self._calls.watch(identity, deployment, [reference])
        except TerracrewError:
            return None
        return next((each for each in found if each.reference == reference), None)

    def _report_end(self, state: InstanceState, step: str, reporter: ServerReporter) -> None:
        words = state.words or "it ended"
        if state.exit_code is not None and "exit code" not in words:
            words += f" (exit code {state.exit_code})"
        for line in state.last_lines[-MAX_SHOWN_LINES:]:
            reporter.line(f"instance: {line}")
        reporter.failed(
            step, words, "the log of this job has the last lines that it printed" if state.last_lines else ""
        )
        raise CloudRefused(f"the first instance ended before it said hello: {words}")

    async def _stop(self, identity: CloudIdentity, deployment: Deployment, reference: str, reason: str) -> None:
        """Stop an instance that did not prove anything. If the cloud does not answer, the sweeper ends it later."""
        try:
            await self._calls.stop(identity, deployment, reference, f"the deployment ended: {reason}"[:200])
        except TerracrewError:
            return

    async def on_end(self, tx: Tx, job: FleetJob, facts: Mapping[str, str]) -> None:
        """Store what was made. A failed update leaves the deployment as it was; a failed first one has made nothing."""
        before = await store.hold(tx, job.target_id)
        if before is None:
            return
        if before.status == "removing":  # it is known what was made, if somebody cancels the removal that waits
            if job.status is FleetJobStatus.SUCCEEDED:
                await store.save(tx, before, msgspec.structs.replace(before.accepted(), facts=dict(facts)))
            return
        if job.status is FleetJobStatus.SUCCEEDED:
            after = msgspec.structs.replace(before.accepted(), status="deployed", facts=dict(facts))
        elif is_first(job):
            after = msgspec.structs.replace(before, status="failed", facts={})
        else:
            former = msgspec.json.decode(job.spec[FORMER], type=DeploymentSettings)
            after = msgspec.structs.replace(before, settings=former)
            if former.capacity != before.settings.capacity:
                await runners.change(tx, SYSTEM, job.target_id, RunnerChange(max_jobs=former.capacity))
        await store.save(tx, before, after)


def is_first(job: FleetJob) -> bool:
    """Return whether nothing was deployed before the job, so that everything that it made is removed if it fails."""
    return job.type is FleetJobType.DEPLOY_WORKER


def proof_name(job: FleetJob) -> str:
    """Return the name of the instance that proves a deployment: the same in each attempt of the job, so that one is started.

    Numbers of jobs return after the database was set back, and their ids do not.
    """
    return f"tc-{job.target_id[-12:]}-first-{job.number}-{job.id[-4:]}"


async def described(tx: Tx, job: FleetJob, server: ServerFacts) -> Described:
    """Return the runner of a job as its cloud gets it. Raises Conflict if it was removed."""
    found = await describe(tx, job.target_id, server)
    if found is None:
        raise Conflict(f"`{job.target_name}` or its cloud identity was removed")
    return found


async def _note_start(tx: Tx, job: FleetJob, name: str, reference: str) -> None:
    """Write the row of the first instance, which the loop that watches instances then knows, too."""
    if await store.hold(tx, job.target_id) is None:
        raise Conflict(f"`{job.target_name}` was removed")
    if await _instance(tx, job, name) is not None:
        return
    now = store.moment(tx)
    await store.insert_instances(
        tx,
        [
            CloudInstance(
                id=ids.new("cin"),
                runner_id=job.target_id,
                name=name,
                epoch=0,
                status="starting",
                reference=reference,
                wanted_at=now,
                asked_at=now,
                started_at=now,
            )
        ],
    )


async def _instance(tx: Tx, job: FleetJob, name: str) -> CloudInstance | None:
    return next((each for each in await reads.instances(tx, job.target_id) if each.name == name), None)


async def _has_said_hello(tx: Tx, job: FleetJob, name: str) -> bool:
    found = await _instance(tx, job, name)
    return (found is not None and found.hello_at is not None) or name in await reads.connected_names(tx, job.target_id)


async def _give_up(tx: Tx, job: FleetJob, name: str, reason: str) -> bool:
    """End the row of the first instance. Returns False if its process is connected: it may have a job, and is not stopped."""
    await store.hold(tx, job.target_id)
    if name in await reads.connected_names(tx, job.target_id):
        return False
    found = await _instance(tx, job, name)
    if found is not None and found.is_live:
        await store.save_instance(tx, found, found.to("ended", store.moment(tx), reason))
    return True
