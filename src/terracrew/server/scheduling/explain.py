"""Explains why no runner has taken a queued job yet: which runners could take it, and what each of them lacks."""

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from terracrew import plugins
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Row, Tx
from terracrew.server.jobs import queue_reads
from terracrew.server.jobs.model import Job
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.runners import crew_reads
from terracrew.server.runners.model import SILENCE_SECONDS
from terracrew.server.scheduling import crews
from terracrew.server.scheduling.crews import SHARED, Crew, Wanted
from terracrew.server.scheduling.model import Reason

MAX_NAMED_RUNNERS = 3
"""The number of runners that a reason names; the others are counted."""
MAX_COUNTED_JOBS = 100
"""Jobs ahead are counted up to this number."""
RUNNERS = "/dashboard/runners"
HIDDEN_RUNNER = "a runner that you may not see"


class _Way(msgspec.Struct, frozen=True):
    """A job with its module and the places whose runners may take it, nearest first."""

    job: Job
    module: Row
    tiers: list[Crew]

    @property
    def online(self) -> Crew | None:
        """The nearest place with a runner that takes jobs."""
        return next((crew for crew in self.tiers if crew.online), None)


class _Names(msgspec.Struct, frozen=True):
    """Runners as the reader may know them: a runner of a group that the reader may not see has no name."""

    seen: Visible | None
    """What the reader may see; None if all runners may be named."""

    def has(self, organization_id: str | None, path: str) -> bool:
        if self.seen is None or organization_id is None:  # shared runners are for everybody
            return True
        return self.seen.covers(authorize.group(organization_id, path.rpartition("/")[0]))

    def of(self, organization_id: str | None, path: str) -> str:
        return path if self.has(organization_id, path) else HIDDEN_RUNNER


async def why(tx: Tx, job: Job, registry: Registry, reader: Principal | None = None) -> Reason:
    """Return what keeps a queued job of a free module waiting. A job that waits for its turn is told how many are ahead of it."""
    return (await why_each(tx, [job], registry, reader, with_turn=True))[job.id]


async def why_each(
    tx: Tx, jobs: Sequence[Job], registry: Registry, reader: Principal | None = None, *, with_turn: bool = False
) -> dict[str, Reason]:
    """Return the reasons of many jobs by their ids, with a fixed number of statements. They name no runner that `reader` may not see."""
    if not jobs:
        return {}
    names = _Names(None if reader is None else await authorize.visible(tx, reader, Verb.RUNNER_READ))
    ways = await _ways(tx, jobs)
    offline = [way for way in ways if way.tiers and way.online is None]
    members = await crews.members(tx, {crew.place_id for way in offline for crew in way.tiers}) if offline else {}
    first = await _first_of_modules(tx, [way.job for way in ways if way.online])
    found: dict[str, Reason] = {}
    for way in ways:
        crew = way.online
        if not way.tiers:
            found[way.job.id] = _nobody(way.module, names)
        elif crew is None:
            known = [row for each in way.tiers for row in members.get(each.place_id, [])]
            found[way.job.id] = _none_online(way, known, names, registry.watched_for, tx.now)
        elif unable := _unable(crew, way.module):
            found[way.job.id] = unable
        elif earlier := first.get(way.job.id):
            text = f"job #{earlier['number']} of this module goes first"
            found[way.job.id] = Reason("module_busy", text, f"/dashboard/jobs/{earlier['id']}")
        elif problem := registry.withheld.reason(way.job.id):
            text = (
                f"what it needs cannot be decrypted: {problem}. Give the server that master key, or replace the state"
            )
            found[way.job.id] = Reason("undecryptable", text, f"/dashboard/modules/{way.job.module_id}")
        elif crew.free:
            found[way.job.id] = Reason("offered", "it is being offered to its runners")
        else:
            ahead = await _ahead(tx, way.job.id, crew) if with_turn else None
            found[way.job.id] = _full(crew, ahead)
    return found


async def _ways(tx: Tx, jobs: Sequence[Job]) -> list[_Way]:
    modules = await crews.modules(tx, [job.id for job in jobs])
    above = await crews.groups_above(tx, {module["group_id"] for module in modules.values()})
    only = {job_id: module["maker_id"] or module["runner_id"] for job_id, module in modules.items()}
    serves = await crews.assigned_places(tx, set(filter(None, only.values())))
    wanted: dict[str, list[Wanted]] = {}
    for job_id, module in modules.items():
        places = [module["id"], *above.get(module["group_id"], ()), SHARED]
        if runner_id := only[job_id]:
            places = [runner_id] if serves.get(runner_id, set()).intersection(places) else []
        wanted[job_id] = [Wanted(place, module["instance_name"] or "", module["engine"]) for place in places]
    found = await crews.crews(tx, {each for places in wanted.values() for each in places})
    return [
        _Way(job, modules[job.id], [found[each] for each in wanted[job.id] if each in found])
        for job in jobs
        if job.id in modules
    ]


def _nobody(module: Row, names: _Names) -> Reason:
    if module["maker_id"] is not None:
        maker = names.of(module["maker_organization_id"], module["maker_path"])
        what = f"the runner {maker}" if maker != HIDDEN_RUNNER else maker
        text = f"{what}, which made its plan, is no longer assigned to this module: assign it again, or cancel this job"
        return Reason("plan_runner", text, RUNNERS)
    return Reason("no_assignment", "no runner is assigned to this module; assign one, or register a new one", RUNNERS)


def _none_online(way: _Way, known: list[Row], names: _Names, watched_for: float, now: float) -> Reason:
    crew = {row["id"]: row for row in known}
    said = _said(way, list(crew.values()), names)
    single = next(iter(crew.values())) if len(crew) == 1 else None
    is_named = single is not None and names.has(single["organization_id"], single["path"])
    link = f"{RUNNERS}?q={quote(single['path'], safe='')}" if single is not None and is_named else RUNNERS
    start = now - watched_for
    if watched_for < SILENCE_SECONDS and any(start - SILENCE_SECONDS < (r["heard_at"] or 0) < start for r in known):
        return Reason("settling", f"the server has just started, and its runners are not back yet: {said}", link)
    if way.module["maker_id"] is not None:
        text = f"only the runner that made its plan can continue with it, and that runner takes no jobs now: {said}"
        return Reason("plan_runner", text, link)
    if not any(row["has_credential"] for row in known):
        text = f"none of its runners has a usable credential, so none can connect: {said}"
        return Reason("no_credential", f"{text}; give it a worker token or a service account", link)
    return Reason("none_online", f"no runner available: {said}", link)


def _said(way: _Way, crew: list[Row], names: _Names) -> str:
    """Return the names of a few runners, each with the reason why it takes no jobs."""
    named = sorted(f"{row['path']} ({_state(row)})" for row in crew if names.has(row["organization_id"], row["path"]))
    hidden = sum(not names.has(row["organization_id"], row["path"]) for row in crew)
    is_cut = any(tier.runners > crew_reads.MAX_LISTED for tier in way.tiers)
    total = sum(tier.runners for tier in way.tiers) if is_cut else len(crew)
    parts = named[:MAX_NAMED_RUNNERS]
    if not parts:
        return HIDDEN_RUNNER if total == 1 else f"{total} runners that you may not see"
    if hidden and not is_cut:
        parts.append(HIDDEN_RUNNER if hidden == 1 else f"{hidden} runners that you may not see")
    more = total - min(MAX_NAMED_RUNNERS, len(named)) - (0 if is_cut else hidden)
    return ", ".join(parts) + (f" and {more} more" if more else "")


def _state(row: Row) -> str:
    """Return the reason why a runner takes no jobs."""
    if row["is_disabled"]:
        return "disabled"
    if row["is_connected"]:
        return "its disk is full" if row["is_disk_full"] and not row["is_drained"] else "draining"
    if not row["has_credential"]:
        return "no usable credential"
    if row["heard_at"] is None:
        return "has never connected"
    return f"offline since {datetime.fromtimestamp(row['heard_at'], UTC):%Y-%m-%d %H:%M} UTC"


def _unable(crew: Crew, module: Row) -> Reason | None:
    """Return the reason if runners are online but none of them can run the job; None if one can."""
    pinned, engine = module["instance_name"], module["engine"]
    if pinned and not crew.named:
        text = f"it is pinned to the instance {pinned}, which is not connected to any runner that it may use"
        return Reason("instance_absent", text, RUNNERS)
    if not crew.able:
        is_ours = engine in plugins.BUILT_IN[plugins.ENGINES]
        advice = (
            f"`terracrew engine install {engine}` there" if is_ours else "install the package that provides it there"
        )
        return Reason("no_engine", f"no online runner has the engine {engine}: {advice}", RUNNERS)
    return None


def _full(crew: Crew, ahead: int | None) -> Reason:
    """Return the reason if runners could take the job but all of their slots are taken."""
    text = f"all of its runners are full ({crew.slots} slot{'' if crew.slots == 1 else 's'})"
    if ahead is not None:
        turn = "it is the next" if not ahead else f"{ahead} job{'s' if ahead > 1 else ''} ahead of it"
        text += f", more than {MAX_COUNTED_JOBS} jobs ahead of it" if ahead > MAX_COUNTED_JOBS else f", {turn}"
    return Reason("all_full", text, RUNNERS)


async def _first_of_modules(tx: Tx, jobs: Sequence[Job]) -> dict[str, Row]:
    """Return for each job the queued job of its module that comes first, unless it is the job itself."""
    rows = await queue_reads.first_of_modules(tx, [job.id for job in jobs])
    return {row["behind"]: row for row in rows}


async def _ahead(tx: Tx, job_id: str, crew: Crew) -> int:
    return await queue_reads.count_ahead(tx, job_id, crew.runner_id or "", MAX_COUNTED_JOBS + 1)
