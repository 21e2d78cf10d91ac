"""Explains why no runner has taken a queued job yet: which runners could take it, and what each of them lacks."""

from collections.abc import Container, Sequence

import msgspec

from terracrew.api.job_views import Reason
from terracrew.api.jobs import Job
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Row, Tx
from terracrew.server.jobs import queue_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import crew_reads
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.scheduling import crews, reason_texts, select
from terracrew.server.scheduling.crews import SHARED, CrewNeeds
from terracrew.server.scheduling.reason_texts import MAX_COUNTED_JOBS, FullGroup, ReadableNames, UnservedJob, tags_of
from terracrew.server.scheduling.select import Code, JobNeeds

_choice = msgspec.json.Decoder(DispatcherChoice)
_LISTING: tuple[Code, ...] = ("none_online", "settling", "waking", "wrong_tag")
"""The codes whose reasons name the runners and what is wrong with each of them."""
_SERVED: tuple[Code, ...] = ("capped", "all_full", "offered")
"""The codes of jobs that wait for nothing but their turn, as far as runners are concerned."""


async def why_each(
    tx: Tx,
    jobs: Sequence[Job],
    registry: Registry,
    reader: Principal | None = None,
    precedence: Precedence = "online",
    *,
    with_turn: bool = False,
) -> dict[str, Reason]:
    """Return what keeps queued jobs of free modules waiting, by their ids. The reasons name no runner that `reader` may not see.

    The number of statements is fixed, except `with_turn`: then a job that waits for its turn is told how many are ahead of it.
    """
    if not jobs:
        return {}
    names = ReadableNames(None if reader is None else await authorize.visible(tx, reader, Verb.RUNNER_READ))
    full = await _full_groups(tx, [job.id for job in jobs])
    all_unserved = await _unserved(tx, jobs, precedence, full)
    listed = {
        crew.place_id
        for unserved in all_unserved
        if unserved.code in _LISTING or _may_grow(unserved)
        for crew in unserved.offline
    }
    members = await crews.members(tx, listed) if listed else {}
    cloud = await reason_texts.read_waking(tx, (row for rows in members.values() for row in rows))
    first = await _first_of_modules(tx, [unserved.job for unserved in all_unserved if unserved.code in _SERVED])
    too_new = await _with_unknown_merges(tx, all_unserved)
    found: dict[str, Reason] = {}
    for unserved in all_unserved:
        known = [row for each in unserved.offline for row in members.get(each.place_id, [])]
        if unserved.code == "waking":
            found[unserved.job.id] = reason_texts.starting(cloud, known, names.has_row) or reason_texts.asleep(
                unserved.job.queued_at
            )
        elif unserved.code == "none_online" and (no := reason_texts.refused(cloud, known, names.has_row, tx.now)):
            found[unserved.job.id] = no
        elif unserved.code not in _SERVED:
            found[unserved.job.id] = reason_texts.no_runner(unserved, known, names, registry.watched_for, tx.now)
        elif unserved.job.id in too_new:
            found[unserved.job.id] = reason_texts.merge_unknown()
        elif earlier := first.get(unserved.job.id):
            text = f"job #{earlier['number']} of this module goes first"
            found[unserved.job.id] = Reason("module_busy", text, f"/dashboard/jobs/{earlier['id']}")
        elif withheld := registry.withheld.reason(unserved.job.id):
            link = f"/dashboard/modules/{unserved.job.module_id}"
            found[unserved.job.id] = Reason("damaged", withheld.problem, link)
            if not withheld.is_damaged:
                text = f"what it needs cannot be decrypted: {withheld.problem}. "
                text += "Give the server that master key, or replace the state"
                found[unserved.job.id] = Reason("undecryptable", text, link)
        elif unserved.code == "capped":
            found[unserved.job.id] = reason_texts.capped(full[unserved.job.id])
        elif unserved.code == "offered":
            found[unserved.job.id] = reason_texts.offered(registry.seconds_until_retry(unserved.job.id), tx.now)
        elif _may_grow(unserved) and (coming := reason_texts.starting(cloud, known, names.has_row)):
            found[unserved.job.id] = coming
        else:
            ahead = await _ahead(tx, unserved, precedence) if with_turn else None
            found[unserved.job.id] = reason_texts.full(unserved, ahead)
    return found


async def _with_unknown_merges(tx: Tx, all_unserved: Sequence[UnservedJob]) -> set[str]:
    """Return the jobs that run the result of a merge, and whose runners are all too old for that."""
    places = {
        each.job.id: each.crew.place_id
        for each in all_unserved
        if each.code in ("offered", "all_full") and each.crew is not None and each.job.has_merge
    }
    knowing = await crew_reads.knowing_merges(tx, set(places.values())) if places else set[str]()
    return {job_id for job_id, place in places.items() if place not in knowing}


def _may_grow(unserved: UnservedJob) -> bool:
    """Return whether all runners of a job are full, and one of them may be starting a further instance."""
    return unserved.code == "all_full" and unserved.crew is not None and unserved.crew.wakeable_able > 0


async def _unserved(tx: Tx, jobs: Sequence[Job], precedence: Precedence, full: Container[str]) -> list[UnservedJob]:
    modules = await crews.modules(tx, [job.id for job in jobs])
    above = await crews.groups_above(tx, {module["group_id"] for module in modules.values()})
    needs = {job_id: _needs(module) for job_id, module in modules.items()}
    serves = await crews.assigned_places(tx, {each.runner_id for each in needs.values() if each.runner_id})
    wanted: dict[str, list[CrewNeeds]] = {}
    for job_id, module in modules.items():
        places = [module["id"], *above.get(module["group_id"], ()), SHARED]
        if runner_id := needs[job_id].runner_id:
            places = [runner_id] if serves.get(runner_id, set()).intersection(places) else []
        condition = module["instance_name"] or "", module["engine"], module["engine_version"], module["tags"]
        wanted[job_id] = [CrewNeeds(place, *condition, module["dispatcher"]) for place in places]
    found = await crews.crews(tx, {each for places in wanted.values() for each in places})
    all_unserved: list[UnservedJob] = []
    for job in jobs:
        if job.id in modules:
            tiers = [found[each] for each in wanted[job.id] if each in found]
            crew = select.nearest(needs[job.id], tiers, precedence)
            code = select.judge(tiers, crew, is_capped=job.id in full)
            if crew is not None and crew.online and not crew.in_contact:
                code = "none_online"  # the server has just started, and they may be reconnecting
            all_unserved.append(UnservedJob(job, modules[job.id], needs[job.id], tiers, crew, code))
    return all_unserved


def _needs(module: Row) -> JobNeeds:
    tags = frozenset(tags_of(module["tags"]))
    runner_id = module["maker_id"] or module["runner_id"]
    choice = _choice.decode(module["dispatcher"])
    return JobNeeds(module["engine"], tags, module["instance_name"], runner_id, module["engine_version"], choice)


async def _full_groups(tx: Tx, job_ids: Sequence[str]) -> dict[str, FullGroup]:
    """Return for each job the nearest group above it that has no place for one more running job."""
    capped = await queue_reads.capped_groups(tx, job_ids)
    running = await queue_reads.running_jobs(tx, {(row["organization_id"], row["path"]) for row in capped})
    found: dict[str, FullGroup] = {}
    for row in capped:
        jobs = running[row["organization_id"], row["path"]]
        if jobs >= row["max_running_jobs"]:
            found.setdefault(row["job_id"], FullGroup(row["path"], row["max_running_jobs"], jobs))
    return found


async def _first_of_modules(tx: Tx, jobs: Sequence[Job]) -> dict[str, Row]:
    """Return for each job the queued job of its module that comes first, unless it is the job itself."""
    rows = await queue_reads.first_of_modules(tx, [job.id for job in jobs])
    return {row["behind"]: row for row in rows}


async def _ahead(tx: Tx, unserved: UnservedJob, precedence: Precedence) -> int:
    """Count the jobs that come first on an instance that could run this one, too."""
    instance_id = unserved.crew.instance_id if unserved.crew is not None else None
    return await queue_reads.count_ahead(tx, unserved.job.id, instance_id or "", precedence, MAX_COUNTED_JOBS + 1)
