"""The claim: one statement checks everything and makes at most one owner (rule 1), which is then given what it needs."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any

import msgspec

from terracrew.api.jobs import Plan
from terracrew.api.plan_options import PlanOptions
from terracrew.api.steps import StepSettings
from terracrew.protocol.cloud import CloudIdentities
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.messages import MAX_INLINE_ARCHIVE_BYTES, AttemptRef, Granted
from terracrew.protocol.spec import (
    Credentials,
    GitSource,
    JobLimits,
    JobSpec,
    JobType,
    KnownRevision,
    Resume,
    Source,
    StateSeed,
    Step,
)
from terracrew.server.connections import store as instances
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.engines import model as engines
from terracrew.server.engines import store as engine_store
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.jobs import attempt_store, decide, job_inputs, plan_options, store
from terracrew.server.jobs import metrics as counts
from terracrew.server.jobs.attempts import claim_store, used_once_tokens
from terracrew.server.jobs.attempts.claim_store import ClaimRequest, PlacesInGroups
from terracrew.server.jobs.plans import decide_plan
from terracrew.server.jobs.set_back import receipts
from terracrew.server.jobs.set_back.receipts import Claimed
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.secrets import credentials
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.content import state_context
from terracrew.server.tree.inputs import reads as input_reads
from terracrew.server.tree.inputs.effective import GivenInputs
from terracrew.server.tree.modules import module_key
from terracrew.server.tree.step_settings import model
from terracrew.server.tree.step_settings import store as step_settings


class ClaimWon(msgspec.Struct, frozen=True):
    granted: Granted
    archive_object: str | None
    """The object with the source archive, if it still has to be added to the grant."""
    module_id: str
    pinned_engine_version: str = ""
    """The version of the engine that all later attempts of the job must have, too."""


_source = msgspec.json.Decoder(Source)
_limits = msgspec.json.Decoder(JobLimits)
_cloud = msgspec.json.Decoder(CloudIdentities)
_names = msgspec.json.Decoder(list[str])
_choice = msgspec.json.Decoder(DispatcherChoice)
_engines = msgspec.json.Decoder(dict[str, str])
_versions = msgspec.json.Decoder(dict[str, list[str]])

Claims = Callable[[ClaimRequest], Awaitable[ClaimWon | None]]


def make_credentials() -> Credentials:
    return Credentials(
        hub=credentials.new("tch").text, api=credentials.new("tcj").text, state_key=secrets.token_bytes(32)
    )


class CapFound(Exception):
    """A claim was made without a lock in an organization that has a group with a cap, so it is undone and repeated with the lock."""


class ClaimGroup:
    """Claims jobs, several in one transaction.

    The statement of the claim counts the running jobs of capped groups. Two servers that count at the same time do not see each
    other's claims, so each of them locks these groups first. While no group has a cap, this costs nothing: the locks are
    taken only from the moment when a cap was found.
    """

    def __init__(self, keys: Keyring, precedence: Precedence) -> None:
        self._keys = keys
        self._precedence: Precedence = precedence
        self._has_caps = False

    async def work(self, tx: Tx, items: list[ClaimRequest]) -> list[ClaimWon | Exception | None]:
        places = await PlacesInGroups.lock(tx, items) if self._has_caps else PlacesInGroups({}, {})
        if leaving := {item.claimant.instance_id for item in items if item.may_leave}:
            await instances.keep(tx, leaving)
        winners: list[ClaimRequest] = []
        rest = sorted(items, key=lambda item: item.claimant.job_id)
        while rest:
            turn, rest = places.turn(rest)
            taken = await claim_store.claim(tx, self._precedence, [item.claimant for item in turn])
            places.take(taken)
            winners += [item for item in turn if item.claimant.job_id in taken]
        granted, given = await _start(tx, self._keys, winners)
        if not self._has_caps and any(row["has_caps"] for row in granted.values()):
            self._has_caps = True
            raise CapFound
        won = {
            id(item): _won(
                granted[job_id],
                given[job_id],
                item.credentials,
                self._keys,
                await _known_revisions(tx, granted[job_id]),
            )
            for item in winners
            if (job_id := item.claimant.job_id) in given
        }
        return [won.get(id(item)) for item in items]


def claims(db: Database, keys: Keyring, precedence: Precedence = "online") -> Claims:
    """Return the function that claims a job. Concurrent claims share a transaction. None means that the claim failed."""
    grouped = db.grouped(ClaimGroup(keys, precedence).work)

    async def claim(item: ClaimRequest) -> ClaimWon | None:
        try:
            return await grouped(item)
        except CapFound:  # it was alone in its group, which is otherwise repeated one by one
            return await grouped(item)

    return claim


async def take_back(db: Database, ref: AttemptRef, own: Credentials, reason: str) -> None:
    """Hand back a claim whose grant was not sent, if it was committed. No runner knows its credentials, so nothing runs.

    A once token that the claim has used up can claim another job.
    """

    async def work(tx: Tx) -> None:
        is_own = await attempt_store.is_claimed_with(tx, ref.job_id, ref.attempt, credentials.digest(own.hub))
        if is_own and (found := await store.hold(tx, ref.job_id, ref.attempt)):
            if back := decide.hand_back(*found, reason, tx.moment):
                await store.move(tx, *found, back)
            await used_once_tokens.give_back(tx, ref, found[0].number)

    await db.write(work)


async def _start(
    tx: Tx, keys: Keyring, claimed: Sequence[ClaimRequest]
) -> tuple[dict[str, Row], dict[str, GivenInputs]]:
    """Start the attempts of claimed jobs. Returns the rows of those that stay claimed, and the inputs of those that can start, by job."""
    if not claimed:
        return {}, {}
    ids = sorted(item.claimant.job_id for item in claimed)
    rows = await offered(tx, ids)
    kept = {row["id"] for row in rows}
    winners = [item for item in claimed if item.claimant.job_id in kept]
    if not winners:
        return {}, {}
    with_versions = await _with_engine_versions(tx, rows)
    granted: dict[str, Row] = {
        job_id: {**row, "steps": await _steps(tx, row), "module_key": await _module_key(tx, keys, row)}
        for job_id, row in with_versions.items()
    }
    inputs = await input_reads.of_modules_with(tx, list(granted))
    resolved = await job_inputs.resolve(tx, keys, granted, inputs)
    given = {job_id: each for job_id, each in resolved.items() if isinstance(each, GivenInputs)}
    claimed_rows = {
        item.claimant.job_id: Claimed(
            receipts.columns_of(granted[item.claimant.job_id]),
            item.claimant.attempt,
            item.claimant.runner_id,
            item.claimant.instance_id,
            tx.now,
            _inputs_sha256(granted[item.claimant.job_id], given.get(item.claimant.job_id)),
            credentials.digest(item.credentials.hub),
            credentials.digest(item.credentials.api),
            keys.encrypt(item.credentials.state_key, state_key_context(item.claimant.job_id, item.claimant.attempt)),
        )
        for item in winners
    }
    await claim_store.insert_attempts(tx, list(claimed_rows.values()))
    granted = {job_id: {**row, "receipt": receipts.seal(keys, claimed_rows[job_id])} for job_id, row in granted.items()}
    attempts = {item.claimant.job_id: item.claimant.attempt for item in winners}
    await job_inputs.record(tx, {(job_id, attempts[job_id]): each for job_id, each in given.items()})
    for job_id, problem in resolved.items():
        if isinstance(problem, str):
            await _refuse(tx, job_id, attempts[job_id], problem)
    for item in winners:
        tx.wake("jobs", item.claimant.job_id)
    tx.on_commit(partial(counts.claimed, [tx.now - row["queued_at"] for row in granted.values()]))
    return granted, given


async def inputs_sha256_now(tx: Tx, keys: Keyring, job_id: str) -> str:
    """Return the hash of what an attempt of a job would be given now; '' if it could not be given its inputs."""
    [row] = await claim_store.grants(tx, [job_id])
    inputs = await input_reads.of_modules_with(tx, [job_id])
    row = {**row, "steps": await _steps(tx, row)}
    given = (await job_inputs.resolve(tx, keys, {job_id: row}, inputs))[job_id]
    return _inputs_sha256(row, given) if isinstance(given, GivenInputs) else ""


async def offered(tx: Tx, claimed: Collection[str]) -> list[Row]:
    """Return what claimed jobs are given, and undo the claims of instances that do not offer what their jobs ask of a dispatcher.

    SQL cannot match the patterns of allow-lists, so a claim of an instance that does not offer it is undone here, in the same
    transaction: nobody sees it. So is the claim of an instance whose once token cannot claim a job, and that of a job whose module
    a person has locked meanwhile.
    Each row has the `choice` with the name of the dispatcher that the job gets.
    """
    found: list[Row] = []
    wrong: list[str] = []
    for row in await claim_store.hold_grants(tx, sorted(claimed)) if claimed else []:
        if row["lock_id"] is not None:
            wrong.append(row["id"])
        elif not (choice := _choice.decode(row["dispatcher"])):
            found.append({**row, "choice": choice})
        elif how := engines.resolve(_engines_of(row), row["engine"], row["wanted_version"], choice):
            found.append({**row, "choice": msgspec.structs.replace(choice, name=how.dispatcher)})
        else:
            wrong.append(row["id"])
    refused = await used_once_tokens.use(tx, found)
    if wrong or refused:
        await claim_store.undo(tx, [*wrong, *refused])
    return [row for row in found if row["id"] not in refused] if refused else found


async def _with_engine_versions(tx: Tx, granted: Sequence[Row]) -> dict[str, Row]:
    """Choose the version of the engine for each job whose module wants certain versions, or whose instance installs one.

    A job keeps the version of its first attempt: a plan that one version made is not for another one to apply. A job of a
    module that accepts any version runs with what the instance has, and its executor reports which.
    """
    versions: dict[str, str] = {}
    pinned: dict[str, str] = {}
    for row in granted:
        have, wanted = _engines_of(row), row["wanted_version"]
        how = engines.resolve(have, row["engine"], wanted, row["choice"])
        if how is None or not how.is_any:
            versions[row["id"]] = version = how.version if how else ""
            if wanted and version:
                pinned[row["id"]] = version
                await engine_store.remember_range(tx, row["engine"], version)
    if versions:
        rows = [(job_id, version, pinned.get(job_id, "")) for job_id, version in versions.items()]
        await claim_store.set_engine_versions(tx, rows)
    return {row["id"]: {**row, "engine_version": versions.get(row["id"], "")} for row in granted}


def _engines_of(row: Row) -> AvailableEngines:
    """Return the engines of the instance that has claimed a job."""
    if row["engines"] is None:
        return AvailableEngines()
    versions = _versions.decode(row["engine_versions"])
    installable = _names.decode(row["installable_engines"])
    return engines.available(_engines.decode(row["engines"]), versions, installable, row["dispatchers"])


async def _refuse(tx: Tx, job_id: str, attempt: int, problem: str) -> None:
    """Fail a job that cannot be started. Its runner is told that it missed the job."""
    found = await store.hold(tx, job_id, attempt)
    if found and (failed := decide.refuse(*found, problem, tx.moment)):
        await store.move(tx, *found, failed)


async def _steps(tx: Tx, row: Row) -> list[StepSettings]:
    """Return what the module and the groups above it add to the steps of a job. Most organizations add nothing."""
    if not row["has_step_settings"]:
        return []
    return await step_settings.that_apply(tx, row["organization_id"], row["module_path"])


async def _module_key(tx: Tx, keys: Keyring, row: Row) -> bytes:
    return await module_key.of_engine(tx, keys, row["module_id"], row["engine"], row["sealed_key"])


def _won(row: Row, given: GivenInputs, own: Credentials, keys: Keyring, known: list[KnownRevision]) -> ClaimWon:
    source, merge = _source.decode(row["source"]), None
    archive = source.upload
    if isinstance(source, GitSource) and source.merge:
        source, merge = msgspec.structs.replace(source, merge=msgspec.UNSET), source.merge
    content: bytes | None = row["content"]
    if content is not None:
        event = row["state_job_id"], row["state_attempt"], row["state_event"]
        content = keys.decrypt(bytes(content), state_context(row["module_id"], *event))
    spec = JobSpec(
        job_id=row["id"],
        attempt=row["attempt"],
        number=row["number"],
        type=JobType(row["type"]),
        organization_id=row["organization_id"],
        module_id=row["module_id"],
        module_path=row["module_path"],
        group_path=row["group_path"],
        engine=row["engine"],
        engine_version=row["engine_version"],
        source=source,
        inputs=given.inputs,
        environment=given.environment,
        files=given.files,
        imports=given.imports,
        definitions=given.definitions,
        secrets=given.secrets,
        inherited=given.inherited,
        backend=row["backend"],
        source_digest=row["source_digest"],
        source_commit=row["source_commit"],
        source_revision=row["source_revision"],
        known_revisions=known,
        state=StateSeed(
            version=row["state_version"], sha256=row["sha256"] or "", size=row["size"] or 0, content=content
        ),
        oidc_audiences=_names.decode(row["oidc_audiences"]),
        resume=_resume(row, given, keys),
        is_destroy_plan=bool(row["is_destroy_plan"]),
        is_refresh_only=bool(row["is_refresh_only"]),
        is_fresh=bool(row["is_fresh"]),
        has_own_source=bool(row["has_own_source"]),
        needs_plan_json=bool(row["needs_plan_json"]),
        has_policies=bool(row["has_policies"]),
        hooks=model.hooks(row["steps"]),
        hook_environments=given.hook_environments,
        flags=_flags(row),
        limits=_limits.decode(row["limits"]),
        cloud=_cloud.decode(row["cloud"]),
        choice=row["choice"],
        merge=merge,
    )
    is_inline = archive is not None and archive.size <= MAX_INLINE_ARCHIVE_BYTES
    name = f"archives/{archive.archive_id}" if archive and is_inline else None
    own = msgspec.structs.replace(own, module_key=row["module_key"], receipt=row["receipt"])
    pinned = row["engine_version"] if row["wanted_version"] else ""
    return ClaimWon(Granted(spec, own), name, row["module_id"], pinned)


def _flags(row: Row) -> dict[Step, list[str]]:
    """Return the flags of the steps. The options of the plan are flags, which runners of every version obey.

    They come last, so that none that people have set for the step takes them back.
    """
    found = model.flags(row["steps"], row["engine"])
    if added := plan_options.flags(_options(row)):
        found = {**found, Step.PLAN: [*found.get(Step.PLAN, []), *added]}
    return found


def _options(row: Row) -> PlanOptions:
    return PlanOptions(
        is_refresh_only=bool(row["is_refresh_only"]),
        targets=_names.decode(row["targets"]),
        replace=_names.decode(row["replace"]),
        refresh=bool(row["refresh"]),
    )


def _inputs_sha256(row: Row, given: GivenInputs | None) -> str:
    """Hash everything that a plan was made from, except the state. The ids of their versions stand for the inputs."""
    parts: list[Any] = [row["engine"], row["backend"], row["source"], row["oidc_audiences"]]
    parts.append(row["module_path"])  # variables can be given it, and the approval rules of its groups apply
    parts += given.revision if given else []
    if steps := row["steps"]:
        parts += [model.hooks(steps), model.flags(steps, row["engine"])]
    parts += plan_options.part_of_hash(_options(row))
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _resume(row: Row, given: GivenInputs, keys: Keyring) -> Resume | None:
    """Return the saved plan that the job continues with, unless something that it was made from has changed since.

    Another runner than the one that made it must not see it: if that one was disabled or removed, the job plans again.
    """
    if row["plan_attempt"] is None or row["maker_id"] != row["runner_id"]:
        return None
    plan = row_to(
        Plan, {"job_id": row["id"]} | {key[5:]: value for key, value in row.items() if key.startswith("plan_")}
    )
    if not decide_plan.is_resumable(plan, state_version=row["state_version"], inputs_sha256=_inputs_sha256(row, given)):
        return None
    maker = plan.made_job_id, plan.made_attempt
    key = keys.decrypt(bytes(row["plan_key"]), state_key_context(*maker))
    return Resume(plan.attempt, plan.state_version, plan.sha256, plan.size, plan.path, key, plan.plan_sha256, *maker)


def state_key_context(job_id: str, attempt: int) -> str:
    return f"attempt-state-key:{job_id}:{attempt}"


async def _known_revisions(tx: Tx, row: Row) -> list[KnownRevision]:
    """Return what revisions of the same repository meant to earlier jobs, the newest first: an executor notices a tag that has moved."""
    if '"git"' not in row["source"]:  # most sources are of another kind, and need not be decoded for this
        return []
    source = _source.decode(row["source"])
    if not isinstance(source, GitSource) or not (source.tag or source.version):
        return []
    found = await claim_store.commits_of_earlier_jobs(tx, row["module_id"], row["id"])
    return [
        KnownRevision(each["source_revision"], each["source_commit"], each["number"])
        for each in found
        if _is_of(source.url, each["source"])
    ]


def _is_of(url: str, text: str) -> bool:
    source = _source.decode(text)
    return isinstance(source, GitSource) and source.url == url
