"""Has the policies of a module's place look at a plan, and says what follows for exactly that plan.

The evaluation takes a program and some time, so it comes before the transaction that decides. That transaction reads again which
policies are active at the module's place, and takes only results for the plan that is going to be applied.
"""

import asyncio
import hashlib
from datetime import datetime, timedelta
from typing import Any

import msgspec

from terracrew.api.jobs import Job, JobStatus, Plan, plain
from terracrew.api.policies import PolicyMessage
from terracrew.errors import TerracrewError, Unavailable
from terracrew.plan_diff import plan_json
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import MUTATING, STEPS_OF, GitSource
from terracrew.server import time_zones
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import attempt_store, decide, store
from terracrew.server.jobs.attempts import place_reads
from terracrew.server.jobs.attempts.place_reads import ModuleOfJob, RunnerOfJob
from terracrew.server.jobs.plans import json_store
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.jobs.plans.json_store import StoredPlanJson
from terracrew.server.objects import Objects
from terracrew.server.policies import model as policy_model
from terracrew.server.policies import reads as policy_reads
from terracrew.server.policies import store as policy_store
from terracrew.server.policies.model import Policy, PolicyGate, PolicyResult
from terracrew.server.policies.opa import Opa, OpaBusy, PolicyOutcome
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content
from terracrew.server.tree.modules import reads as module_reads

FRESH = timedelta(seconds=60)
"""A result for the same plan and the same input is not asked for again within this time. Only the time of day differs by then."""
NO_JSON = (
    "its runner has not delivered the plan as JSON. The log of the job says why if it is too large; otherwise run the job again, and if "
    "that does not help, update the runner: those of 0.1 do not deliver it"
)
_variables = msgspec.json.Decoder(dict[str, msgspec.Raw])


class LookedAt(msgspec.Struct, frozen=True):
    """What the policies of a module's place have said about one plan."""

    module_path: str = ""
    results: tuple[PolicyResult, ...] = ()
    waits_for: str = ""
    """Why some have not looked at it, and will in a moment: nothing follows from it before."""


class _Facts(msgspec.Struct, frozen=True):
    """What is read for an evaluation."""

    job: Job
    module: ModuleOfJob | None
    runner: RunnerOfJob | None
    policies: list[tuple[Policy, str]]
    """Each policy that is active, and the Rego of its version."""
    stored: StoredPlanJson | None
    results: list[PolicyResult]
    now: datetime


class PolicyChecks:
    def __init__(self, db: Database, objects: Objects, keys: Keyring, opa: Opa) -> None:
        self._db, self._objects, self._keys, self._opa = db, objects, keys, opa

    async def look(self, ref: AttemptRef, plan_attempt: int | None, plan_sha256: str) -> LookedAt:
        """Let each policy that is active at the module's place look at a plan, unless it just has.

        `plan_attempt`: the attempt whose saved plan is meant; None for the plan that this attempt has made. An attempt that is not
        the current one, or has its permission already, needs no look.
        """

        async def read(tx: Tx) -> _Facts | None:
            job, attempt = await store.get(tx, ref.job_id), await attempt_store.get_attempt(tx, ref.job_id, ref.attempt)
            if attempt is None or not decide.is_current(job, attempt) or attempt.begun_at is not None:
                return None
            active = await policy_reads.active(tx, job.module_id)
            if not active:
                return None
            plan = None if plan_attempt is None else await plan_store.get(tx, ref.job_id, plan_attempt)
            return await self._facts(tx, job, active, *_made_by(plan, ref))

        facts = await self._db.read(read)
        if facts is None or facts.module is None:
            return LookedAt()
        looked = await self._results(facts, ref.attempt, plan_sha256)
        if looked.waits_for and looked.results:  # the next look finds these
            await self._db.write(lambda tx: policy_store.save_results(tx, looked.results))
        return looked

    async def look_at_plan(self, job_id: str) -> tuple[StoredPlanJson, LookedAt] | None:
        """Let the policies look at the plan of a job that does not ask to apply it; None if its JSON is gone.

        What they say is for people: they look again before anything is applied.
        """

        async def read(tx: Tx) -> _Facts | None:
            stored = await json_store.get(tx, job_id)
            if stored is None:
                return None
            job = await store.get(tx, job_id)
            active = [] if job.status is not JobStatus.SUCCEEDED else await policy_reads.active(tx, job.module_id)
            return await self._facts(tx, job, active, job_id, stored.attempt)

        facts = await self._db.read_in_background(read)
        if facts is None or facts.stored is None:
            return None
        if not facts.policies or facts.module is None:
            return facts.stored, LookedAt()
        return facts.stored, await self._results(
            facts, facts.stored.attempt, facts.stored.plan_sha256, is_background=True
        )

    async def earlier(self, job_id: str, time_zone: str) -> tuple[Job, str, bytes] | None:
        """Return an earlier job, the path of its module, and what policies would be given of its plan; None if that is gone."""

        async def read(tx: Tx) -> _Facts | None:
            stored = await json_store.get(tx, job_id)
            if stored is None:
                return None
            return await self._facts(tx, await store.get(tx, job_id), [], job_id, stored.attempt)

        facts = await self._db.read_in_background(read)
        if facts is None or facts.stored is None or facts.module is None:
            return None
        given = await asyncio.to_thread(_input, facts, await self._content(facts.stored))
        return facts.job, facts.module.path, _with_time(given, _made_at(facts.job), time_zone)

    async def _facts(self, tx: Tx, job: Job, active: list[Policy], made_job_id: str, made_attempt: int) -> _Facts:
        rego: list[tuple[Policy, str]] = []
        for policy in active:
            version = await policy_store.version(tx, policy.id, policy.active_version or 0)
            rego.append((policy, "" if version is None else version.rego))
        stored = await json_store.get(tx, made_job_id)
        return _Facts(
            job,
            await place_reads.module(tx, job.id),
            await place_reads.runner(tx, job.id),
            rego,
            stored if stored is not None and stored.attempt == made_attempt else None,
            await policy_store.results(tx, job.id),
            tx.moment,
        )

    async def _results(self, facts: _Facts, attempt: int, plan_sha256: str, *, is_background: bool = False) -> LookedAt:
        assert facts.module is not None
        stored, problem = facts.stored, NO_JSON
        if not plan_sha256:
            stored = None  # what names no plan is bound to none
        elif stored is not None and stored.plan_sha256 != plan_sha256:
            stored, problem = None, "the JSON that its runner has delivered describes another plan. Run the job again"
        given = b""
        if stored is not None:
            try:
                given = await asyncio.to_thread(_input, facts, await self._content(stored))
            except (Unavailable, OSError):  # the object store is away, which says nothing about the plan
                return LookedAt(facts.module.path, waits_for="the stored plan cannot be read at this moment")
            except TerracrewError as error:
                problem = plain(error.message)
        input_sha256 = hashlib.sha256(given).hexdigest() if given else ""
        json_sha256 = "" if stored is None else stored.sha256

        async def one(policy: Policy, rego: str) -> PolicyResult | OpaBusy:
            known = next((each for each in facts.results if each.policy_id == policy.id), None)
            wanted = (policy.active_version, plan_sha256, json_sha256, input_sha256)
            if (
                known is not None
                and input_sha256
                and (known.version, known.plan_sha256, known.json_sha256, known.input_sha256) == wanted
                and timedelta(0) <= facts.now - known.checked_at < FRESH
                and policy.changed_at <= known.checked_at  # its time zone may be another one
            ):
                rules = {"enforcement": policy.enforcement, "approvals": policy.approvals, "role": policy.role}
                return msgspec.structs.replace(known, attempt=attempt, name=policy.path, **rules)
            outcome, was_given = PolicyOutcome("failed", [PolicyMessage("error", problem)]), input_sha256
            if given:
                try:
                    timed = _with_time(given, facts.now, policy.time_zone)
                    own = facts.job.organization_id
                    [outcome] = await self._opa.evaluate(
                        rego, [timed], organization_id=own, is_background=is_background
                    )
                except OpaBusy as error:
                    return error
                except Unavailable as error:  # its operator installs the program, and then it is evaluated anew
                    outcome, was_given = PolicyOutcome("failed", [PolicyMessage("error", plain(error.message))]), ""
            return PolicyResult(
                job_id=facts.job.id,
                policy_id=policy.id,
                version=policy.active_version or 0,
                name=policy.path,
                enforcement=policy.enforcement,
                approvals=policy.approvals,
                role=policy.role,
                verdict=outcome.verdict,
                messages=outcome.messages,
                attempt=attempt,
                plan_sha256=plan_sha256,
                json_sha256=json_sha256,
                input_sha256=was_given,
                checked_at=facts.now,
            )

        found = await asyncio.gather(*(one(*each) for each in facts.policies))
        results = tuple(each for each in found if isinstance(each, PolicyResult))
        busy = next((each.message for each in found if isinstance(each, OpaBusy)), "")
        return LookedAt(facts.module.path, results, busy)

    async def _content(self, stored: StoredPlanJson) -> bytes:
        if stored.object is not None:
            packed = (await content.read_object(self._objects, self._keys, stored.module_id, stored.object)).content
        else:
            packed = self._keys.decrypt(stored.content or b"", json_store.context(stored.job_id))
        return bytes((await asyncio.to_thread(plan_json.unpack, packed)).plan)


async def gate(tx: Tx, job: Job, looked: LookedAt) -> PolicyGate | None:
    """Keep what the policies have said, and return what follows; None if others are active at the module's place by now.

    The transaction holds the module, so it is not moved to another place meanwhile.
    """
    active = await policy_reads.active(tx, job.module_id)
    if not active:
        return PolicyGate()
    if await module_reads.path(tx, job.module_id, job.organization_id) != looked.module_path:
        return None
    found = policy_model.gate(active, looked.results)
    if found is not None:
        await policy_store.save_results(tx, looked.results)
    return found


async def is_another_plan(tx: Tx, ref: AttemptRef, plan_sha256: str) -> bool:
    """Return whether the permission that an attempt has was given for another plan, at which policies have looked."""
    looked_at = {each.plan_sha256 for each in await policy_store.results(tx, ref.job_id) if each.attempt == ref.attempt}
    return bool(looked_at) and plan_sha256 not in looked_at


def _made_at(job: Job) -> datetime:
    return job.finished_at or job.started_at or job.queued_at


def _made_by(plan: Plan | None, ref: AttemptRef) -> tuple[str, int]:
    return (ref.job_id, ref.attempt) if plan is None else (plan.made_job_id, plan.made_attempt)


def _input(facts: _Facts, plan: bytes) -> bytes:
    """Return what a policy is given, except for the time."""
    job, module, runner = facts.job, facts.module, facts.runner
    assert module is not None
    origin = job.origin
    source: dict[str, Any] = msgspec.to_builtins(job.source)
    known: dict[str, Any] = {
        "plan": msgspec.Raw(plan),
        "inputs": _inputs(plan),
        "module": {
            "path": module.path,
            "name": module.name,
            "group": module.path.rpartition("/")[0],
            "engine": module.engine,
            "labels": module.labels,
            "tags": module.tags,
        },
        "job": {
            "number": job.number,
            "type": job.type.value,
            "is_destroy": job.only_destroys,
            "is_refresh_only": job.is_refresh_only,
            "changes_something": bool(MUTATING & set(STEPS_OF[job.type])),
            "targets": job.targets,
            "replace": job.replace,
            "created_by": job.created_by,
            "engine_version": job.engine_version,
            "origin": "" if origin is None else origin.kind,
        },
        "source": {
            "kind": source.get("kind", ""),
            "url": job.source.url if isinstance(job.source, GitSource) else "",
            "branch": job.source.branch if isinstance(job.source, GitSource) else "",
            "commit": job.source_commit,
            "revision": job.source_revision,
            "digest": job.source_digest,
            "is_own": job.has_own_source,
            "is_pull_request": origin is not None and origin.kind == "pull_request",
        },
        "runner": None if runner is None else {"path": runner.path, "name": runner.name, "tags": runner.tags},
        "cost": job.cost,
    }
    return msgspec.json.encode(known)


def _inputs(plan: bytes) -> dict[str, Any]:
    """Return the inputs that the plan was made with, by their names, where the engine says so. Sensitive ones are masked."""
    try:
        raw = _variables.decode(plan).get("variables")
        return {} if raw is None else {k: v.get("value") for k, v in msgspec.json.decode(raw).items()}
    except (msgspec.MsgspecError, AttributeError, RecursionError):
        return {}


def _with_time(given: bytes, now: datetime, time_zone: str) -> bytes:
    local = now.astimezone(time_zones.zone(time_zone))
    time = {
        "zone": time_zone,
        "rfc3339": local.isoformat(),
        "ns": int(now.timestamp()) * 1_000_000_000,
        "date": local.date().isoformat(),
        "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[local.weekday()],
        "hour": local.hour,
        "minute": local.minute,
    }
    return b'{"time":' + msgspec.json.encode(time) + b"," + given[1:]
