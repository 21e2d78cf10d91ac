"""What DEPLOY_WORKER and UPDATE_WORKER mean: the cloud makes what instances need, and one instance proves that it works."""

import time
from collections.abc import Mapping, Sequence
from typing import Literal, NoReturn

import msgspec

from terracrew import ids
from terracrew.api.deployments import CloudInstance, DeploymentSettings
from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType
from terracrew.api.runners import RunnerChange
from terracrew.clouds.contract import Canceled, CloudRefused
from terracrew.clouds.model import CloudIdentity, Deployment, InstanceRefused, InstanceState, StartRequest
from terracrew.errors import Conflict, Superseded, TerracrewError
from terracrew.fleet.messages import DeployWork, DestroyWork
from terracrew.server.cloud_hosted import leaving
from terracrew.server.cloud_hosted.deploying import FORMER, IMAGE, NEW_TOKEN, VERSION
from terracrew.server.cloud_hosted.describing import Described, ServerFacts, describe
from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.connections import store as instances
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.reads import ProofInstance
from terracrew.server.fleet_jobs.handlers import FleetGrant, ServerReporter
from terracrew.server.fleet_process.link import FleetLost
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import store as releases
from terracrew.server.releases.service import as_withdrawn_refusal
from terracrew.server.runners import service as runners
from terracrew.server.secrets.keyring import Keyring

FIRST_INSTANCE, HELLO, TRIAL = "first_instance", "hello", "trial"
MAX_HELLO_SECONDS = 600.0
"""How long the first instance may take until it says hello."""
MAX_TRIAL_SECONDS = 180.0
"""How long it may take after its hello until it reports how its no-op job ended. It kills that job after 100 s."""
REPORT_SECONDS = 15.0
"""After a hello that does not say that the process is on trial, its report of an earlier connection comes within this time."""
LOOK_SECONDS = 1.0
WATCH_SECONDS = 4.0
"""How often the database and the cloud are asked how far the first instance is."""
MAX_SHOWN_LINES = 20


class DeployHandler:
    later_steps: Sequence[tuple[str, str]] = (
        (FIRST_INSTANCE, "First instance"),
        (HELLO, "Says hello"),
        (TRIAL, "No-op job"),
    )

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
        """Start one instance with what was made, and wait until it has passed a no-op job. Without that, nothing is changed."""
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
        found = await reporter.write(lambda tx: reads.proof(tx, job.target_id, name))
        if found is not None and found.trial_passed:  # in an earlier attempt, and it may have left since
            self._proven(found, "", name, reporter)
            return
        [answer] = await self._calls.start(identity, deployment, [StartRequest(name, is_on_trial=True)])
        if isinstance(answer, InstanceRefused):
            reporter.failed(FIRST_INSTANCE, answer.words)
            raise CloudRefused(f"the first instance could not be started: {answer.words}")
        reference = answer.reference
        await reporter.write(lambda tx: _note_start(tx, job, name, reference))
        reporter.describe(FIRST_INSTANCE, "accepted by the cloud", reference)
        try:
            await self._until_proven(identity, deployment, Proof(job, name, reference, reporter))
        except (CloudRefused, Canceled) as error:
            reason = error.message
            ending = await reporter.write(lambda tx: _give_up(tx, job, name, reason))
            if ending == "stop":
                await self._stop(identity, deployment, reference, reason)
            if ending != "proven":
                raise
            reporter.line("The first instance has just passed its no-op job, and may have a job: it is not stopped.")
            found = await reporter.write(lambda tx: reads.proof(tx, job.target_id, name))
            if found is not None:
                self._proven(found, reference, name, reporter)

    def _proven(self, found: ProofInstance, reference: str, name: str, reporter: ServerReporter) -> None:
        reporter.done(FIRST_INSTANCE, reference)
        reporter.begin(HELLO, "Says hello")
        reporter.done(HELLO, name)
        reporter.begin(TRIAL, "No-op job")
        reporter.done(TRIAL, "", found.trial_words)

    async def _until_proven(self, identity: CloudIdentity, deployment: Deployment, proof: "Proof") -> None:
        """Return when the first instance has said hello and passed its no-op job. Raises CloudRefused if it does not."""
        watched = float("-inf")
        while True:
            if await self._look(deployment, proof):
                return
            if time.monotonic() - watched > WATCH_SECONDS:
                watched = time.monotonic()
                state = await self._state(identity, deployment, proof.reference)
                # Its last report may have come before its end was seen.
                if state is not None and state.phase == "ended" and not await self._look(deployment, proof):
                    self._report_end(state, proof.step, proof.reporter)
                if state is not None and proof.step == FIRST_INSTANCE:
                    proof.describe_start(state)
            proof.require_in_time(deployment.server_url)
            await proof.reporter.wait(LOOK_SECONDS)

    async def _look(self, deployment: Deployment, proof: "Proof") -> bool:
        """Note how far the first instance is, and return whether it has passed. Raises CloudRefused if it has failed."""
        found = await proof.reporter.write(lambda tx: reads.proof(tx, deployment.runner_id, proof.name))
        if found is None:
            return False
        proof.note_hello(found)
        if found.trial_passed is not None:
            proof.end_trial(found)
        return bool(found.trial_passed)

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
        before = "passed its no-op job" if step == TRIAL else "said hello"
        raise CloudRefused(f"the first instance ended before it {before}: {words}")

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
            proof = await reads.proof(tx, job.target_id, proof_name(job))
            after = msgspec.structs.replace(
                before.accepted(),
                status="deployed",
                facts=dict(facts),
                image=job.spec.get(IMAGE, ""),
                version=job.spec.get(VERSION) or (proof.version if proof else ""),
                revision=before.revision + 1,
            )
        elif is_first(job):
            after = msgspec.structs.replace(before, status="failed", facts={})
        else:
            former = msgspec.json.decode(job.spec[FORMER], type=DeploymentSettings)
            after = msgspec.structs.replace(before, settings=former)
            if former.capacity != before.settings.capacity:
                await runners.change(tx, SYSTEM, job.target_id, RunnerChange(max_jobs=former.capacity))
        await store.save(tx, before, after)
        await leaving.retire_older(tx, after)


class Proof:
    """The instance that proves a deployment: how far it is, as the steps of the job say it."""

    def __init__(self, job: FleetJob, name: str, reference: str, reporter: ServerReporter) -> None:
        self.name, self.reference, self.reporter = name, reference, reporter
        self._version = job.spec.get(VERSION, "")
        self._began_at = self._step_began_at = time.monotonic()
        self.step = FIRST_INSTANCE

    @property
    def seconds(self) -> float:
        """For how long it has been waited for."""
        return time.monotonic() - self._began_at

    def describe_start(self, state: InstanceState) -> None:
        if state.phase == "running":
            self.reporter.done(FIRST_INSTANCE, self.reference, f"{self.seconds:.0f} s")
            self._begin(HELLO, "Says hello")
        else:
            words = f"{state.words or state.phase}, {self.seconds:.0f} s so far"
            self.reporter.describe(FIRST_INSTANCE, words, self.reference)

    def note_hello(self, found: ProofInstance) -> None:
        """Note that it has said hello. Raises CloudRefused if it is not what was deployed, or does not know trials."""
        if self.step == FIRST_INSTANCE:
            self.reporter.done(FIRST_INSTANCE, self.reference, f"{self.seconds:.0f} s")
            self._begin(HELLO, "Says hello")
        if self.step == HELLO:
            if self._version and found.version != self._version:
                words = f"its image has Terracrew {found.version}, and not {self._version}"
                self._fail(words, "name the image of this version in the release, or in cloud_runner_image")
            self.reporter.done(HELLO, self.name, f"Terracrew {found.version} after {self.seconds:.0f} s")
            self._begin(TRIAL, "No-op job")
        is_late = time.monotonic() - self._step_began_at > REPORT_SECONDS
        if found.trial_passed is None and not found.is_on_trial and is_late:
            self._fail(
                "it said hello without a trial", "its image has a version of Terracrew that does not know trials"
            )

    def end_trial(self, found: ProofInstance) -> None:
        """Note how its no-op job ended. Raises CloudRefused if it has failed."""
        if found.trial_passed:
            self.reporter.done(TRIAL, "", found.trial_words)
        else:
            self._fail(found.trial_words or "its no-op job has failed", "its log in the cloud has more")

    def require_in_time(self, server_url: str) -> None:
        """Raise CloudRefused if it has taken too long."""
        if self.step == TRIAL:
            if time.monotonic() - self._step_began_at > MAX_TRIAL_SECONDS:
                words = f"it did not report within {MAX_TRIAL_SECONDS / 60:.0f} minutes how its no-op job ended"
                self._fail(words, "its log in the cloud says what it does")
        elif self.seconds > MAX_HELLO_SECONDS:
            words = f"the first instance did not say hello within {MAX_HELLO_SECONDS / 60:.0f} minutes"
            self._fail(words, f"check that it can reach {server_url} from its network")

    def _begin(self, step: str, words: str) -> None:
        self.step, self._step_began_at = step, time.monotonic()
        self.reporter.begin(step, words)

    def _fail(self, words: str, remedy: str) -> NoReturn:
        self.reporter.failed(self.step, words, remedy)
        whole = words if words.startswith("the first instance") else f"the first instance did not prove itself: {words}"
        raise CloudRefused(f"{whole}: {remedy}" if self.step != TRIAL else whole)


def is_first(job: FleetJob) -> bool:
    """Return whether nothing was deployed before the job, so that everything that it made is removed if it fails."""
    return job.type is FleetJobType.DEPLOY_WORKER


def proof_name(job: FleetJob) -> str:
    """Return the name of the instance that proves a deployment: the same in each attempt of the job, so that one is started.

    Numbers of jobs return after the database was set back, and their ids do not.
    """
    return f"tc-{job.target_id[-12:]}-first-{job.number}-{job.id[-4:]}"


async def described(tx: Tx, job: FleetJob, server: ServerFacts) -> Described:
    """Return the runner of a job as its cloud gets it, with the image that the job deploys. Raises Conflict if it was removed, or if
    the release was withdrawn since the job was queued."""
    if (version := job.spec.get(VERSION)) and not job.is_unwinding:
        release = await releases.get(tx, version)
        if release.is_withdrawn:
            raise as_withdrawn_refusal(release)
    found = await describe(tx, job.target_id, server, image=job.spec.get(IMAGE, ""), version=job.spec.get(VERSION, ""))
    if found is None:
        raise Conflict(f"`{job.target_name}` or its cloud identity was removed")
    return found


async def _note_start(tx: Tx, job: FleetJob, name: str, reference: str) -> None:
    """Write the row of the first instance, which the loop that watches instances then knows, too."""
    deployment = await store.hold(tx, job.target_id)
    if deployment is None:
        raise Conflict(f"`{job.target_name}` was removed")
    if await _instance(tx, job, name) is not None:
        return
    now = tx.moment
    await store.insert_instances(
        tx,
        [
            CloudInstance(
                id=ids.new("cin"),
                runner_id=job.target_id,
                name=name,
                epoch=0,
                revision=deployment.revision + 1,
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


async def _give_up(tx: Tx, job: FleetJob, name: str, reason: str) -> Literal["stop", "leave", "proven"]:
    """End the row of the first instance, and say what becomes of its process. It is `proven` if it has passed in the last moment.

    A process on trial has no job, and gets none from now on even if it passes: so it is stopped. One that has said hello without a
    trial may have a job. It gets no further one, and ends by itself: `leave`.
    """
    await store.hold(tx, job.target_id)
    found, process = await _instance(tx, job, name), await reads.proof(tx, job.target_id, name)
    if process is not None:
        await instances.hold_any(tx, process.instance_id)
        process = await reads.proof(tx, job.target_id, name)
    if process is not None and process.trial_passed:
        return "proven"
    if process is not None:
        await instances.retire(tx, job.target_id, [process.instance_id], f"its deployment failed: {reason}"[:200])
        if process.is_connected and not process.is_on_trial:
            return "leave"
    if found is not None and found.is_live:
        await store.save_instance(tx, found, found.to("ended", tx.moment, reason))
    return "stop"
