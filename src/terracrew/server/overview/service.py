"""Puts an overview together from what a reader may see."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from terracrew import __version__
from terracrew.api.drift import ModuleDrift
from terracrew.api.job_views import JobListed
from terracrew.api.jobs import Job, JobStatus
from terracrew.api.overview import Need, NeedKind, Overview, OverviewSpan, QueueNow
from terracrew.protocol.events import PlanSummary
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.drift import reads as drift_reads
from terracrew.server.jobs import reads as job_reads
from terracrew.server.overview import activity, coming, figures, reads
from terracrew.server.overview.selection import Selected, WaitingJobs, select
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules as release_rules
from terracrew.server.releases import store as releases
from terracrew.server.runners import service as runners
from terracrew.server.runners import version_reads
from terracrew.server.runners.reads import RunnerScope
from terracrew.server.runs import attention, reasons
from terracrew.server.runs.attention import MAX_LISTED, Attention, TroubledModule
from terracrew.server.runs.reasons import Watch
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups.tree_path import is_within, topmost
from terracrew.server.tree.groups.tree_path import is_within_any as _is_in
from terracrew.wording import drift_words, plan_words

MAX_OUTDATED_READ = 200
"""How many outdated runners of each version are counted."""
_OPEN = (JobStatus.CLAIMED.value, JobStatus.PROCESSING.value)


class AwayRunner(msgspec.Struct, frozen=True):
    """A runner that stays away. Those that people have disabled or drained are none."""

    id: str
    path: str
    since: datetime


class OldRunners(NamedTuple):
    """Runners that have an older version than the latest release."""

    latest: str
    named: list[tuple[str, str, str]]
    """Their ids, paths and versions, ordered by paths."""


class TreeNeeds(NamedTuple):
    """What needs a person beside jobs."""

    drifted: list[ModuleDrift]
    """Up to one more than MAX_LISTED."""
    away: list[AwayRunner]
    """Up to one more than MAX_LISTED."""
    outdated: OldRunners | None


class Scope(NamedTuple):
    """The groups that an overview is about."""

    place: str
    places: Sequence[str]
    """The place, or those of the reader's own groups that are in it."""


async def scope(tx: Tx, who: Principal, place: str, *, is_mine: bool = False) -> Scope:
    """Return the groups to show. With `is_mine`, those at which the reader's roles are bound, if they are narrower than the place."""
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    path = (await groups.on_the_way(tx, who, place, seen)).path if place else ""
    own = my_groups(seen, path) if is_mine else []
    return Scope(path, own or [path])


def my_groups(seen: Visible, place: str) -> list[str]:
    """Return the groups below a place at which roles of the reader are bound, without those that are in another one of them."""
    return topmost({path for kind, path in seen.bindings if kind == "group" and path and is_within(path, place)})


async def read(
    tx: Tx, who: Principal, watch: Watch, span: OverviewSpan, place: str = "", is_mine: bool = False
) -> Overview:
    """Return everything that an overview has, for a program."""
    within = await scope(tx, who, place, is_mine=is_mine)
    found = await attention.read(tx, who, within.places)
    tree = await tree_needs(tx, who, within.places)
    listed, more = await _needs(tx, found, tree, watch)
    return msgspec.structs.replace(
        await with_figures(tx, who, span, within),
        needs=listed,
        more_needs=more,
        activity=await activity.read(tx, who, within.places),
        coming_up=await coming.read(tx, who, within.places),
    )


async def with_figures(
    tx: Tx,
    who: Principal,
    span: OverviewSpan,
    within: Scope,
) -> Overview:
    """Return the figures of a scope, and nothing else."""
    organization_id = who.organization_id or ""
    seen = await authorize.visible_by_verb(tx, who, Verb.JOB_READ, Verb.RUNNER_READ)
    of_jobs, of_runners = (
        figures.visible_paths(seen[verb], organization_id, within.places) for verb in (Verb.JOB_READ, Verb.RUNNER_READ)
    )
    of_modules = figures.visible_modules(seen[Verb.JOB_READ], within.places, of_jobs)
    is_shared = runners.is_shared_seen(who)
    total, parts = await figures.sums(tx, organization_id, of_jobs, of_runners, span, is_shared=is_shared)
    return Overview(
        place=within.place,
        span=span,
        is_partial=figures.is_partial(seen[Verb.JOB_READ], organization_id, within.places),
        queue=await _queue(tx, organization_id, [*of_jobs, *of_modules]),
        total=total,
        parts=parts,
        needs=[],
        more_needs=[],
    )


async def _queue(tx: Tx, organization_id: str, places: Sequence[str]) -> QueueNow:
    counts = await reads.open_jobs(tx, organization_id, places)
    oldest = await reads.oldest_queued(tx, organization_id, places) if counts.get("QUEUED") else None
    return QueueNow(
        running=sum(counts.get(status, 0) for status in _OPEN),
        waiting=counts.get("QUEUED", 0),
        awaiting_approval=counts.get("AWAITING_APPROVAL", 0),
        oldest_job_id=oldest["id"] if oldest else None,
        oldest_number=oldest["number"] if oldest else None,
        oldest_since=datetime.fromtimestamp(oldest["queued_at"], UTC) if oldest else None,
    )


async def tree_needs(tx: Tx, who: Principal, places: Sequence[str]) -> TreeNeeds:
    """Return drift, runners that stay away, and outdated runners that the reader may change.

    System administrators operate the shared runners, which are in no group, so they find them where nothing is left out.
    """
    organization_id, most = who.organization_id or "", MAX_LISTED + 1
    is_shared = who.is_system_admin and "" in places
    seen = await authorize.visible_by_verb(tx, who, Verb.TREE_READ, Verb.RUNNER_READ, Verb.RUNNER_WRITE)
    drifted = await _drifted(tx, organization_id, seen[Verb.TREE_READ], places, most)
    away = [
        AwayRunner(row["id"], row["path"], datetime.fromtimestamp(row["since"], UTC))
        for row in await reads.away(
            tx, organization_id, seen[Verb.RUNNER_READ], attention.MAX_UNFILTERED_READ, is_shared=is_shared
        )
        if _is_in(row["path"], places)
    ]
    within = RunnerScope(organization_id, is_shared=is_shared)
    outdated = await _outdated(tx, seen[Verb.RUNNER_WRITE], within, places)
    return TreeNeeds(drifted, away[:most], outdated)


async def _drifted(tx: Tx, organization_id: str, seen: Visible, places: Sequence[str], count: int) -> list[ModuleDrift]:
    """Return the first modules with drift that is not muted."""
    rows = await drift_reads.newest_drifted(tx, organization_id, attention.MAX_UNFILTERED_READ)
    found: list[ModuleDrift] = []
    for row in rows:
        if _is_in(row["path"], places) and seen.covers(authorize.module(organization_id, row["path"])):
            drift = await drift_reads.of_module(tx, row["id"])
            found += [drift] if drift is not None and drift.drifted else []
        if len(found) == count:
            break
    return found


async def _outdated(tx: Tx, seen: Visible, within: RunnerScope, places: Sequence[str]) -> OldRunners | None:
    latest = release_rules.latest(await releases.versions(tx), __version__)
    if latest is None or seen.is_nothing:
        return None
    old = [
        each
        for each in await version_reads.current(tx, seen, within)
        if release_rules.is_outdated(each, latest.version)
    ]
    if not old:
        return None
    found = await version_reads.having(tx, seen, within, old, MAX_OUTDATED_READ)
    named = sorted(
        ((id_, path, version) for id_, (path, version) in found.items() if _is_in(path, places)),
        key=lambda each: each[1],
    )
    return OldRunners(latest.version, named) if named else None


async def _needs(tx: Tx, found: Attention, tree: TreeNeeds, watch: Watch) -> tuple[list[Need], list[NeedKind]]:
    listed = {*found.to_approve, *found.failed, *found.stale, *found.out_of_contact, *found.queued}
    rows = await job_reads.rows(tx, job_reads.COLUMNS_OF_A_ROW, sorted(listed))
    why = await reasons.why_each(tx, [row_to(Job, row) for row in rows], watch)
    known = {row["id"]: msgspec.structs.replace(row_to(JobListed, row), reason=why.get(row["id"])) for row in rows}
    return needs(select(found, known), tree, await attention.plans(tx, found.to_approve))


def needs(
    found: Selected[JobListed], tree: TreeNeeds, plans: Mapping[str, PlanSummary]
) -> tuple[list[Need], list[NeedKind]]:
    """Return what needs the reader, the most urgent first, and the kinds of which there is more. A pure function."""

    def of_jobs(kind: NeedKind, jobs: Iterable[JobListed], since: str, text: str = "") -> list[Need]:
        return [
            _of_job(
                kind,
                each,
                text or plan_words.counts(plans.get(each.id)) or each.message,
                getattr(each, since),
            )
            for each in jobs
        ]

    kinds: list[list[Need]] = [
        of_jobs("approve", found.to_approve, "queued_at"),
        of_jobs("failed", found.failed, "finished_at"),
        of_jobs("lost", found.lost, "started_at", "no contact with its attempt"),
        [_of_module("doubt", each, f"job #{each.count:,} was cut short in a change") for each in found.in_doubt],
        [
            _of_module("quarantine", each, f"{each.count:,} {'state waits' if each.count == 1 else 'states wait'}")
            for each in found.quarantined
        ],
        of_jobs("stale", found.stale, "queued_at", "the state has changed since it was planned"),
        [_waiting(each) for each in found.waiting],
        [drift_need(each) for each in tree.drifted],
        [away_need(each) for each in tree.away],
    ]
    listed = [need for each in kinds for need in each[:MAX_LISTED]]
    more: list[NeedKind] = [each[0].kind for each in kinds if len(each) > MAX_LISTED]
    return [*listed, *([outdated_need(tree.outdated)] if tree.outdated else [])], more


def _of_job(kind: NeedKind, job: JobListed, text: str, since: datetime | None) -> Need:
    return Need(
        kind=kind,
        path=job.module_path,
        text=text,
        since=since,
        job_id=job.id,
        job_number=job.number,
        module_id=job.module_id,
    )


def _waiting(found: WaitingJobs[JobListed]) -> Need:
    reason, others = found.job.reason, found.others
    more = f" (and {others:,} more {'job' if others == 1 else 'jobs'} for the same reason)" if others else ""
    since = reason.since if reason and reason.since else found.job.queued_at
    return _of_job("waiting", found.job, f"{reason.text if reason else ''}{more}", since)


def _of_module(kind: NeedKind, module: TroubledModule, text: str) -> Need:
    return Need(kind=kind, path=module.path, text=text, since=module.since, module_id=module.id)


def drift_need(module: ModuleDrift) -> Need:
    what = drift_words.counted(module.new, module.changed, module.gone)
    count = f"{module.drifted:,} {'address differs' if module.drifted == 1 else 'addresses differ'}"
    text = f"{count} from the configuration" + (f" ({what} since the check before)" if what else "")
    return Need(kind="drift", path=module.path, text=text, since=module.drifted_since, module_id=module.module_id)


def away_need(runner: AwayRunner) -> Need:
    text = "no instance of it is connected: start one, or disable the runner if it is to stay away"
    return Need(kind="offline", path=runner.path, text=text, since=runner.since, runner_id=runner.id)


def outdated_need(old: OldRunners) -> Need:
    """Return one row for all outdated runners: they are updated together."""
    first_id, first, version = old.named[0]
    others = len(old.named) - 1
    more = f"it and {others:,} other {'runner' if others == 1 else 'runners'}: " if others else ""
    text = f"{more}{version} is older than {old.latest}, the latest release"
    return Need(kind="outdated", path=first, text=text, runner_id=None if others else first_id)
