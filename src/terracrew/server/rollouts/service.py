"""Starts, shows, pauses, resumes and stops roll-outs, updates single runners, and checks that the caller may."""

from terracrew import ids
from terracrew.api import fields
from terracrew.api.fleet_jobs import FleetJob
from terracrew.api.pages import Page
from terracrew.api.rollouts import (
    NewRollout,
    PlannedRunner,
    Rollout,
    RolloutPreview,
    RolloutRunner,
    RolloutRunnerStatus,
    RolloutStatus,
    RolloutSummary,
    RolloutView,
    RunnerUpdate,
)
from terracrew.errors import Conflict, Forbidden, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.paging import cursor
from terracrew.server.paging import start as start_after
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.releases import rules as release_rules
from terracrew.server.releases import service as releases
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import decide, planning, reads, store, views
from terracrew.server.rollouts.planning import RolloutPlan, RolloutRules
from terracrew.server.rollouts.views import RolloutReader
from terracrew.server.runners import service as runners
from terracrew.server.tree.groups import service as groups

MAX_NAMED_RUNNERS = 20
"""How many paths the audit log names of the runners of a roll-out."""
_S = RolloutRunnerStatus


async def preview(tx: Tx, who: Principal, rules: RolloutRules, group: str = "") -> RolloutPreview:
    """Return what *Update all* would do for the caller."""
    release = await planning.latest(tx, rules)
    if release is None:
        return RolloutPreview(version="", runners=[])
    plan = await planning.plan(tx, await planning.changeable(tx, who, group), release, rules.updaters)
    is_open = await store.open_of(tx, who.organization_id or "")
    if is_open is not None and not await _is_seen(tx, who, is_open):
        is_open = None
    return RolloutPreview(
        version=release.version,
        runners=plan.runners,
        breaking=plan.breaking,
        automatic_words=_automatic_words(plan, rules),
        open_rollout_id=is_open and is_open.id,
    )


def _automatic_words(plan: RolloutPlan, rules: RolloutRules) -> str:
    if not rules.updates_cloud_runners:
        return "cloud-hosted runners are not updated by themselves: the server's setting `updates_cloud_runners` is off"
    if plan.breaking:
        versions = " and ".join(each.version for each in plan.breaking)
        return f"no runner is updated by itself, because {versions} is breaking: a person has to accept that"
    return ""


async def start(tx: Tx, who: Principal, rules: RolloutRules, new: NewRollout) -> RolloutView:
    """Start a roll-out of the latest release with the outdated runners that the caller may change."""
    organization_id = who.organization_id or ""
    if (await authorize.visible(tx, who, Verb.RUNNER_WRITE)).is_nothing:
        raise authorize.forbidden(Verb.RUNNER_WRITE, authorize.organization(organization_id))
    await groups.hold_organization(tx, organization_id)
    release = await planning.latest(tx, rules)
    if release is None:
        raise Conflict("no release was published yet that suits this server: there is nothing to update to")
    if new.version and release_rules.parse(new.version) != release_rules.parse(release.version):
        raise Conflict(
            f"the latest release is {release.version}, not {new.version}: all runners are updated to the latest"
        )
    plan = await planning.plan(tx, await planning.changeable(tx, who, new.group), release, rules.updaters)
    if not plan.updatable:
        by_hand = len(plan.runners)
        rest = (
            f": {by_hand} outdated {'runner is' if by_hand == 1 else 'runners are'} updated by hand" if by_hand else ""
        )
        raise Conflict(f"no runner that you may change can be updated to {release.version} by the server{rest}")
    if plan.breaking and not new.accept_breaking:
        raise Conflict(planning.breaking_refusal(plan.breaking), breaking=[each.version for each in plan.breaking])
    if (other := await store.open_of(tx, organization_id)) is not None:
        raise await _under_way(tx, who, other)
    own = [each for each in plan.runners if each.group_id]  # shared runners are no part of it
    rollout = await _insert(tx, who, organization_id, release, own, is_automatic=False)
    return await views.view(tx, who, rollout)


async def start_automatic(tx: Tx, rules: RolloutRules, organization_id: str) -> Rollout | None:
    """Start a roll-out with the cloud-hosted runners of an organization that no roll-out of the latest release had yet.

    Runners with a breaking release on their way are left out: a person has to accept that. Returns None if there is nothing to do.
    """
    await groups.hold_organization(tx, organization_id)
    release = await planning.latest(tx, rules)
    if release is None or await store.open_of(tx, organization_id) is not None:
        return None
    had = await reads.had(tx, organization_id, release.version)
    states = [
        each
        for each in await reads.states_of_organization(tx, organization_id)
        if each.runner.type == "cloud-hosted"
        and each.runner.id not in had
        and release_rules.is_outdated(each.version, release.version)
        and not await planning.breaking(tx, [each.version], release)
    ]
    plan = await planning.plan(tx, states, release, rules.updaters)
    if not plan.updatable:
        return None
    return await _insert(tx, SYSTEM, organization_id, release, plan.runners, is_automatic=True)


async def _insert(
    tx: Tx,
    who: Principal,
    organization_id: str,
    release: Release,
    planned: list[PlannedRunner],
    *,
    is_automatic: bool,
) -> Rollout:
    now = tx.moment
    rollout = Rollout(
        id=ids.new("rlo"),
        organization_id=organization_id,
        version=release.version,
        status=RolloutStatus.ROLLING,
        is_automatic=is_automatic,
        started_by=who.id,
        started_by_name=who.name,
        started_at=now,
    )
    members = [
        fields.created(
            RolloutRunner,
            each,
            rollout_id=rollout.id,
            status=_S.BY_HAND if each.wave is None else _S.WAITING,
            words=each.reason,
            changed_at=now,
        )
        for each in planned
    ]
    await store.insert(tx, rollout, members)
    paths = [each.path for each in members if each.status is _S.WAITING]
    details = {"runners": len(paths), "paths": paths[:MAX_NAMED_RUNNERS], "is_automatic": is_automatic}
    await record(tx, who, "rollout.start", rollout, **details)
    return rollout


async def _under_way(tx: Tx, who: Principal, other: Rollout) -> Conflict:
    """Return the error for a second roll-out. It says no more about the first one than the caller may see."""
    if not await _is_seen(tx, who, other):
        return Conflict("a roll-out with other runners of your organization is under way: try again when it has ended")
    return Conflict(
        f"the roll-out of {other.version} is {other.status}: wait for its end, or stop it first", rollout_id=other.id
    )


async def find(tx: Tx, who: Principal, reference: str) -> Rollout:
    """Find a roll-out by its id; `latest` is the newest one of the caller's organization that the caller may see."""
    unseen = NotFound(f"there is no roll-out `{reference[:100]}` here, or you may not see it")
    if reference == "latest":
        newest = (await listing(tx, who, None, 1)).items
        found = await store.get(tx, newest[0].id) if newest else None
        if found is None:
            raise NotFound("there is no roll-out yet: `terracrew runner update --all` starts one")
        return found
    found = await store.get(tx, ids.parse("rlo", reference))
    if found is None or not await _is_seen(tx, who, found):
        raise unseen
    return found


async def _is_seen(tx: Tx, who: Principal, rollout: Rollout) -> bool:
    members = await reads.runners_with_groups(tx, [rollout.id])
    return (await RolloutReader.of(tx, who)).is_seen(rollout, members)


async def show(tx: Tx, who: Principal, reference: str) -> RolloutView:
    return await views.view(tx, who, await find(tx, who, reference))


async def newest(tx: Tx, who: Principal) -> RolloutView | None:
    """Return the newest roll-out of the caller's organization that the caller may see."""
    found = (await listing(tx, who, None, 1)).items
    rollout = await store.get(tx, found[0].id) if found else None
    return None if rollout is None else await views.view(tx, who, rollout)


async def listing(tx: Tx, who: Principal, after: str | None, limit: int) -> Page[RolloutSummary]:
    """Return the roll-outs of the caller's organization that the caller may see, the newest first."""
    reader, before = await RolloutReader.of(tx, who), start_after(after)
    items: list[RolloutSummary] = []
    while True:
        found = await reads.listing(tx, who.organization_id or "", before, limit + 1)
        members = await reads.runners_with_groups(tx, [each.id for each in found])
        for each in found:
            own = [(runner, group) for runner, group in members if runner.rollout_id == each.id]
            if reader.is_seen(each, own):
                items.append(reader.summary(each, own))
            if len(items) > limit:
                return Page(items[:limit], cursor(items[limit - 1].id))
        if len(found) <= limit:
            return Page(items)
        before = found[-1].id


async def pause(tx: Tx, who: Principal, reference: str) -> RolloutView:
    """Start no further update until it is resumed. Those that run go on."""
    before = await _held(tx, who, reference)
    if before.status is RolloutStatus.PAUSED:
        return await views.view(tx, who, before)
    return await _change(tx, who, "rollout.pause", before, before.to(RolloutStatus.PAUSED, tx.moment))


async def stop(tx: Tx, who: Principal, reference: str) -> RolloutView:
    """End it. Updates that run go on; those that wait are not started."""
    before = await _held(tx, who, reference)
    if not before.is_open:
        raise Conflict(f"the roll-out of {before.version} has ended already: it is {before.status}")
    after = before.to(RolloutStatus.STOPPED, tx.moment, f"{who.name} stopped it")
    return await _change(tx, who, "rollout.stop", before, after)


async def resume(tx: Tx, who: Principal, rules: RolloutRules, reference: str) -> RolloutView:
    """Go on with a roll-out that was paused or stopped. Runners that failed are updated again, before the later waves."""
    before = await _held(tx, who, reference)
    if before.status is RolloutStatus.ROLLING:
        return await views.view(tx, who, before)
    after = before.to(RolloutStatus.ROLLING, tx.moment)
    latest = await planning.latest(tx, rules)
    if latest is None or latest.version != before.version:
        release = await releases.get(tx, who, before.version)
        if release.is_withdrawn:
            raise releases.as_withdrawn_refusal(release)
        now = f": {latest.version} is" if latest else ""
        raise Conflict(
            f"{before.version} is not the latest release any more{now}, so that this roll-out is not resumed"
        )
    other = await store.open_of(tx, before.organization_id)
    if other is not None and other.id != before.id:
        raise await _under_way(tx, who, other)
    for each in await store.runners(tx, before.id):
        if each.status is _S.FAILED:
            await store.save_runner(tx, each, decide.retry(each, tx.moment))
    return await _change(tx, who, "rollout.resume", before, after)


async def update_runner(tx: Tx, who: Principal, rules: RolloutRules, reference: str, wanted: RunnerUpdate) -> FleetJob:
    """Queue the update of one runner, to the latest release if no version is given."""
    runner = await runners.find(tx, who, reference, Verb.RUNNER_WRITE)
    release = await (releases.get(tx, who, wanted.version) if wanted.version else planning.latest(tx, rules))
    if release is None:
        raise Conflict("no release was published yet that suits this server: there is nothing to update to")
    if release.is_withdrawn:
        raise releases.as_withdrawn_refusal(release)
    if release.min_server_version and release_rules.is_lower(rules.server_version, release.min_server_version):
        raise Conflict(
            f"{release.version} needs a server of version {release.min_server_version} or later: this one is {rules.server_version}"
        )
    state = (await reads.states(tx, [runner.id]))[runner.id]
    if release_rules.is_lower(state.version, release.version) is False:
        is_same = release_rules.is_lower(release.version, state.version) is False
        rest = "already" if is_same else f"which is higher than {release.version}: a runner is not set back"
        raise Conflict(f"`{runner.path}` has {state.version}{'' if is_same else ','} {rest}")
    by_hand = (await rules.updaters.by_hand(tx, [runner], release)).get(runner.id)
    if by_hand is not None:
        rest = f": {by_hand.command}" if by_hand.command else ""
        raise Conflict(f"`{runner.path}` is updated by hand: {by_hand.reason}{rest}", command=by_hand.command)
    passed = await planning.breaking(tx, [state.version], release)
    if passed and not wanted.accept_breaking:
        raise Conflict(planning.breaking_refusal(passed), breaking=[each.version for each in passed])
    return await rules.updaters.update(tx, who, runner, release.version)


async def _held(tx: Tx, who: Principal, reference: str) -> Rollout:
    """Lock a roll-out that the caller may change."""
    found = await find(tx, who, reference)
    members = await reads.runners_with_groups(tx, [found.id])
    if not (await RolloutReader.of(tx, who)).is_changeable(found, members):
        raise Forbidden("only somebody who may change all runners of a roll-out may pause, resume or stop it")
    await groups.hold_organization(tx, found.organization_id)  # as `start` does, in the same order
    return await store.hold(tx, found.id)


async def _change(tx: Tx, who: Principal, action: str, before: Rollout, after: Rollout) -> RolloutView:
    await store.save(tx, before, after)
    await record(tx, who, action, after)
    return await views.view(tx, who, after)


async def record(tx: Tx, who: Principal, action: str, rollout: Rollout, **details: object) -> None:
    facts = {"version": rollout.version, **details}
    await audit.record(tx, who, action, "rollout", rollout.id, facts, organization_id=rollout.organization_id)
