"""Everything that a claim depends on: as cases, as the pure function sees it, and as rows."""

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

from terracrew.api.jobs import Job, JobStatus
from terracrew.protocol.spec import JobType, LocalSource
from terracrew.server.db import Tx
from terracrew.server.jobs import decide
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.queue_reads import turn_in_module
from tests.stateful.server_under_test import KEYS

NOW = datetime(2026, 1, 1, tzinfo=UTC)

MODULE, GROUP, SIBLING = "a/b/m", "a/b", "a/bb"

Place = tuple[Literal["group", "module"], str]

PLACES: list[Place] = [
    ("group", ""),
    ("group", "a"),
    ("group", GROUP),
    ("group", SIBLING),
    ("group", "a/b/m"),
    ("group", "b"),
    ("module", MODULE),
    ("module", "a/b/other"),
]


class Case(msgspec.Struct, frozen=True):
    """Everything that a claim depends on. The claimant is instance `one` of runner `mine`."""

    status: JobStatus
    attempt: int
    asked: int
    is_module_busy: bool
    is_module_locked: bool
    beside: list[tuple[str, JobStatus, int, int]]
    """The other jobs: of which module, with which status, priority and number. The job itself has the priority 0 and the number 5."""
    quarantine: Literal["none", "here", "elsewhere", "decided"]
    made_by: Literal["nobody", "mine", "another"]
    """Whose plan the job goes on with."""
    is_plan_current: bool
    maker: Literal["there", "disabled", "removed", "unassigned"]
    """What became of the other runner."""
    epoch: int
    asked_epoch: int
    is_connected: bool
    is_instance_draining: bool
    is_runner_draining: bool
    is_disabled: bool
    is_of_runner: bool
    """Whether the instance that is named belongs to the runner that is named."""
    max_jobs: int
    capacity: int
    held: int
    is_shared: bool
    is_of_organization: bool
    places: list[Place]
    pinned_runner: Literal["none", "mine", "another"]
    pinned_instance: Literal["none", "one", "two"]
    once_token: Literal["none", "waiting", "used", "expired", "revoked", "missing"]
    """The once token that the instance came with; `none` if its credential is for any number of jobs."""


GOOD = Case(
    status=JobStatus.QUEUED,
    attempt=2,
    asked=2,
    is_module_busy=False,
    is_module_locked=False,
    beside=[],
    quarantine="none",
    made_by="nobody",
    is_plan_current=True,
    maker="there",
    epoch=3,
    asked_epoch=3,
    is_connected=True,
    is_instance_draining=False,
    is_runner_draining=False,
    is_disabled=False,
    is_of_runner=True,
    max_jobs=3,
    capacity=3,
    held=0,
    is_shared=False,
    is_of_organization=True,
    places=[("group", GROUP)],
    pinned_runner="none",
    pinned_instance="none",
    once_token="none",
)

OTHERWISE: dict[str, list[Any]] = {
    "status": list(JobStatus),
    "attempt": [1, 2, 3],
    "asked": [1, 2, 3],
    "is_module_busy": [True],
    "is_module_locked": [True],
    "beside": [
        [("module", JobStatus.QUEUED, 0, 4)],
        [("module", JobStatus.QUEUED, 0, 6)],
        [("module", JobStatus.QUEUED, 1, 6)],
        [("module", JobStatus.QUEUED, -1, 4)],
        [("module", JobStatus.AWAITING_APPROVAL, 0, 4)],
        [("module", JobStatus.SUCCEEDED, 0, 4)],
        [("other", JobStatus.QUEUED, 1, 4)],
        [("module", JobStatus.QUEUED, -1, 3), ("module", JobStatus.QUEUED, 0, 4), ("module", JobStatus.QUEUED, 0, 6)],
        [("module", JobStatus.QUEUED, -1, 3), ("module", JobStatus.QUEUED, 0, 6), ("module", JobStatus.QUEUED, 0, 7)],
    ],
    "quarantine": ["here", "elsewhere", "decided"],
    "made_by": ["mine", "another", "another", "another"],
    "is_plan_current": [False, False],
    "maker": ["disabled", "disabled", "removed", "removed", "unassigned", "unassigned"],
    "asked_epoch": [2, 3, 4],
    "is_connected": [False],
    "is_instance_draining": [True],
    "is_runner_draining": [True],
    "is_disabled": [True],
    "is_of_runner": [False],
    "max_jobs": [1, 2, 3],
    "capacity": [1, 2, 3],
    "held": [0, 1, 2, 3],
    "is_shared": [True],
    "is_of_organization": [False],
    "places": [[place] for place in PLACES] + [[], PLACES[1:2] + PLACES[6:7], PLACES[3:6]],
    "pinned_runner": ["mine", "another"],
    "pinned_instance": ["one", "two"],
    "once_token": ["waiting", "waiting", "used", "expired", "revoked", "missing"],
}
"""Up to four of these at once: where everything is wrong, everything is refused, and nothing is tested."""

CHANGES = st.sampled_from([(field, value) for field, values in OTHERWISE.items() for value in values])

CASES = st.lists(CHANGES, max_size=4).map(lambda changes: msgspec.structs.replace(GOOD, **dict(changes)))


def expected(case: Case) -> bool:
    """What `decide.claim` says, of a world that is described to it without SQL."""
    seat = decide.ClaimContext(
        runner_id="mine",
        instance_id="one",
        is_connected=case.is_connected and case.epoch == case.asked_epoch and case.is_of_runner,
        takes_jobs=not (case.is_instance_draining or case.is_runner_draining or case.is_disabled),
        free=min(case.max_jobs, case.capacity) - case.held - _holds_itself(case),
        is_selected=_is_assigned(case)
        and case.pinned_runner in ("none", "mine")
        and case.pinned_instance in ("none", "one"),
        has_valid_credential=case.once_token in ("none", "waiting"),
    )
    is_serving = case.maker == "there" and (case.is_shared or case.is_of_organization)
    is_serving = is_serving or (case.maker == "unassigned" and case.is_shared)
    is_bound = case.is_plan_current and (case.made_by == "mine" or is_serving)
    is_bound = is_bound and case.pinned_runner in ("none", case.made_by)
    made_by = case.made_by if is_bound and case.made_by != "nobody" else None
    job = _job(case)
    decision = decide.claim(
        job,
        case.asked,
        seat,
        NOW,
        is_module_busy=case.is_module_busy,
        is_first_of_module=all(
            turn_in_module(job) < turn_in_module(msgspec.structs.replace(job, priority=priority, number=number))
            for module, status, priority, number in case.beside
            if (module, status) == ("module", JobStatus.QUEUED)
        ),
        has_quarantine=case.quarantine == "here",
        made_by=made_by,
        is_module_locked=case.is_module_locked,
    )
    return decision is not None


def _holds_itself(case: Case) -> int:
    return int(_job(case).is_active)


def _is_assigned(case: Case) -> bool:
    return case.is_shared or (case.is_of_organization and any(map(_covers, case.places)))


def _covers(place: Place) -> bool:
    kind, path = place
    if kind == "module":
        return path == MODULE
    return path in ("", "a", GROUP)


def _job(case: Case) -> Job:
    return Job(
        id="job",
        organization_id="org",
        module_id="module",
        number=5,
        type=JobType.APPLY,
        status=case.status,
        attempt=case.attempt,
        priority=0,
        source=LocalSource("/srv/x"),
        created_by="test",
        created_at=NOW,
        queued_at=NOW,
        plan_attempt=None if case.made_by == "nobody" else 1,
    )


async def _insert(tx: Tx, table: str, **values: Any) -> None:
    names = ", ".join(values)
    await tx.run(f"INSERT INTO {table} ({names}) VALUES ({', '.join(':' + name for name in values)})", **values)  # pyright: ignore[reportArgumentType]


async def build(tx: Tx, case: Case) -> None:
    now = {"created_at": 1.0}
    for organization in ("org", "foreign"):
        await _insert(tx, "organizations", id=organization, name=organization, **now)
        await _insert(
            tx, "groups", id=f"root-{organization}", organization_id=organization, name="", path="", depth=0, **now
        )
    pins = {"none": None, "mine": "mine", "another": "another", "one": "one", "two": "two"}
    for module, path in (("module", MODULE), ("other", "a/b/other")):
        await _insert(
            tx,
            "modules",
            id=module,
            organization_id="org",
            group_id="root-org",
            name=module,
            path=path,
            engine="tofu",
            source='{"kind":"local","path":"/srv/x"}',
            runner_id=pins[case.pinned_runner],
            runner_instance_name=pins[case.pinned_instance],
            lock_id="lck" if case.is_module_locked and module == "module" else None,
            **now,
        )
    own = "org" if case.is_of_organization else "foreign"
    is_other_needed = not case.is_of_runner or case.maker != "removed"
    for runner in ("mine", *(["another"] if is_other_needed else [])):
        await _insert(
            tx,
            "runners",
            id=runner,
            organization_id=None if case.is_shared else own,
            group_id=None if case.is_shared else f"root-{own}",
            name=runner,
            path=runner,
            type="self-hosted",
            is_draining=case.is_runner_draining,
            max_jobs=case.max_jobs,
            is_disabled=case.is_disabled if runner == "mine" else case.maker == "disabled",
            **now,
        )
    if case.maker not in ("removed", "unassigned"):
        root = {"place_id": f"root-{own}", "kind": "group", "path": ""}
        await _insert(tx, "assignments", runner_id="another", organization_id=own, **root, **now)
    for kind, path in case.places:
        place = "module" if path == MODULE and kind == "module" else f"{kind}-{path}"
        await _insert(
            tx, "assignments", runner_id="mine", place_id=place, kind=kind, organization_id=own, path=path, **now
        )
    await _insert(
        tx,
        "instances",
        id="one",
        runner_id="mine" if case.is_of_runner else "another",
        name="one",
        key_sha256="",
        epoch=case.epoch,
        version="0",
        capacity=case.capacity,
        engines='{"tofu":"1"}',
        is_connected=case.is_connected,
        is_draining=case.is_instance_draining,
        connected_at=1.0,
        heard_at=1.0,
        once_token_id=None if case.once_token == "none" else "token",
    )
    if case.once_token not in ("none", "missing"):
        used = {"claimed_at": 1.0, "job_id": "elsewhere", "attempt": 1, "instance_id": "one"}
        await _insert(
            tx,
            "once_tokens",
            id="token",
            sha256="",
            runner_id="mine",
            created_by="test",
            expires_at=1.0 if case.once_token == "expired" else tx.now + 60.0,
            revoked_at=1.0 if case.once_token == "revoked" else None,
            **(used if case.once_token == "used" else {}),
            **now,
        )
    await _jobs(tx, case)


async def _jobs(tx: Tx, case: Case) -> None:
    async def job(job_id: str, module: str, status: str, instance: str | None, number: int, **more: Any) -> None:
        await _insert(
            tx,
            "jobs",
            id=job_id,
            organization_id="org",
            module_id=module,
            number=number,
            type="APPLY",
            status=status,
            instance_id=instance,
            source='{"kind":"local","path":"/srv/x"}',
            created_by="test",
            created_at=1.0,
            queued_at=1.0,
            finished_at=1.0 if status in ("SUCCEEDED", "FAILED", "CANCELED", "DECLINED") else None,
            **more,
        )

    is_active = case.status in ("CLAIMED", "PROCESSING")
    plan = None if case.made_by == "nobody" else 1
    await job("job", "module", case.status, "one" if is_active else None, 5, attempt=case.attempt, plan_attempt=plan)
    if plan is not None:
        await _insert(
            tx,
            "attempts",
            job_id="job",
            number=1,
            runner_id=case.made_by,
            instance_id="gone",
            hub_sha256="h",
            api_sha256="a",
            state_key=KEYS.encrypt(bytes(32), claims.state_key_context("job", 1)),
            claimed_at=1.0,
        )
        await _insert(
            tx,
            "plans",
            job_id="job",
            attempt=1,
            made_job_id="job",
            made_attempt=1,
            state_version=0 if case.is_plan_current else 7,
            inputs_sha256="",
            path="",
            sha256="",
            size=0,
            made_at=1.0,
            decide_by=1.0,
            decision="approved",
            decided_at=1.0,
        )
    if case.is_module_busy and not is_active:
        await job("busy", "module", "PROCESSING", "elsewhere", 2)
    for module, status, priority, number in case.beside:
        await job(f"beside-{number}", module, status, None, number, priority=priority)
    for index in range(case.held):
        module = f"held-{index}"
        await _insert(
            tx,
            "modules",
            id=module,
            organization_id="org",
            group_id="root-org",
            name=module,
            path=module,
            engine="tofu",
            source="{}",
            created_at=1.0,
        )
        await job(f"held-{index}", module, "CLAIMED", "one", 10 + index)
    if case.quarantine != "none":
        await _insert(
            tx,
            "states",
            id="state",
            module_id="other" if case.quarantine == "elsewhere" else "module",
            status="discarded" if case.quarantine == "decided" else "quarantined",
            job_id="old",
            attempt=1,
            event=1,
            origin="engine",
            serial=1,
            lineage="",
            sha256="",
            size=0,
            content=b"",
            created_at=1.0,
        )
