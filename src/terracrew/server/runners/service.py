"""Registers, changes and finds runners, and checks that the caller may do so."""

from datetime import UTC

import msgspec

from terracrew import ids
from terracrew.api import fields
from terracrew.api.groups import Group
from terracrew.api.pages import Page
from terracrew.api.place_settings import PlaceKind
from terracrew.api.runners import (
    Acknowledgement,
    NewRunner,
    Registered,
    Registration,
    Runner,
    RunnerAlert,
    RunnerChange,
    RunnerStatus,
    RunnerView,
)
from terracrew.api.tags import normalized
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.connections import configuration
from terracrew.server.connections import store as instance_store
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import patterns
from terracrew.server.deployments import store as deployments
from terracrew.server.paging import cursor, page, start, start_number
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, store, view_reads
from terracrew.server.runners.alerts import store as alert_store
from terracrew.server.runners.alerts.raising import MAX_OPEN_PER_RUNNER
from terracrew.server.runners.assignments import store as assignments
from terracrew.server.runners.shared import rules
from terracrew.server.secrets import credentials
from terracrew.server.secrets.credentials import Secret
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path as paths

MAX_SHOWN_ALERTS = 2 * MAX_OPEN_PER_RUNNER
CLOUD_TOKEN_SECONDS = 10 * 365 * 24 * 3600.0


def place(runner: Runner | RunnerView) -> Place:
    """Return the place whose rights count: the runner's group, or the server for a shared runner, which only administrators change."""
    if runner.organization_id is None:
        return authorize.SERVER
    return authorize.group(runner.organization_id, runner.group or "")


async def find(tx: Tx, who: Principal, reference: str, verb: Verb) -> Runner:
    """Find a runner by its id, or by its path in the caller's organization. The caller must have the right to do `verb` with it."""
    if ids.is_id("rnr", reference):
        runner = await store.get(tx, ids.parse("rnr", reference))
    else:
        runner = await store.at(tx, who.organization_id or "", paths.parse(reference))
    unseen = NotFound(f"there is no runner `{reference}` here, or you may not see it")
    if runner is None:
        raise unseen
    if not (runner.is_shared and verb is Verb.RUNNER_READ and is_shared_seen(who)):
        await _require(tx, who, verb, runner, unseen)
    return runner


async def _require(tx: Tx, who: Principal, verb: Verb, runner: Runner, unseen: NotFound) -> None:
    """Raise an error unless the caller may; the error is `unseen` if the caller may not even know that the runner exists."""
    try:
        await authorize.require(tx, who, verb, place(runner), unseen)
    except Forbidden:
        roles = await authorize.roles_at(tx, who, place(runner))
        if not runner.is_shared and not authorize.allows(roles, Verb.RUNNER_READ):
            raise unseen from None
        raise


async def show(tx: Tx, who: Principal, reference: str, verb: Verb = Verb.RUNNER_READ) -> RunnerView:
    return await view_reads.view(tx, await find(tx, who, reference, verb))


async def listing(
    tx: Tx,
    who: Principal,
    group: str | None,
    status: RunnerStatus | None,
    after: str | None,
    limit: int,
    words: str = "",
) -> Page[RunnerView]:
    """Return the runners in and below a group, or those of the whole organization with the shared ones.

    Those that match words are ordered by their paths.
    """
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    within = reads.RunnerScope(who.organization_id or "", is_shared=is_shared_seen(who))
    if group is not None:
        found = await groups.on_the_way(tx, who, group, seen)
        within = reads.RunnerScope(found.organization_id, found.id, found.path)
    if words.strip():
        begin = start_number(after)
        found_ids = await reads.by_path(tx, seen, within, status and status.value, patterns(words), begin, limit + 1)
        views = await view_reads.views_of(tx, found_ids[:limit])
        return Page(views, cursor(str(begin + limit)) if len(found_ids) > limit else None)
    ids_ = await reads.page(tx, seen, within, status and status.value, start(after), limit + 1)
    return page(await view_reads.views_of(tx, ids_), limit)


def is_shared_seen(who: Principal) -> bool:
    """Return whether the caller may see the shared runners. They serve everybody, so every person and service account may."""
    return who.kind in ("user", "service_account")


async def create(tx: Tx, who: Principal, new: NewRunner) -> Runner:
    return await _insert(tx, who, new, await _group(tx, who, new.group), None)


async def create_cloud_hosted(tx: Tx, who: Principal, new: NewRunner, region: str) -> Runner:
    """Create the record of a runner that is deployed in a cloud. Its deployment gives it a token, unless it has a service account."""
    return await _insert(tx, who, new, await _group(tx, who, new.group), None, region=region)


async def set_cloud_token(tx: Tx, runner_id: str, token: str) -> None:
    """Set the worker token of a cloud-hosted runner, which its deployment puts into the cloud's secret store.

    A runner may sleep for longer than an unused token lasts, so this one ends with the next deployment that makes another.
    """
    await store.set_worker_token(tx, runner_id, credentials.digest(token), tx.now + CLOUD_TOKEN_SECONDS)
    tx.wake("access", runner_id)


async def register(
    tx: Tx, who: Principal, new: Registration, url: str, token_seconds: float, release_key: str = ""
) -> Registered:
    """Register a runner with a worker token of its own. Only the answer contains the token; the server stores its hash."""
    group = await _group(tx, who, new.group)
    known = await store.at(tx, group.organization_id, paths.join(group.path, paths.name(new.name)))
    if known is not None and not known.is_shared and new.replace:
        return await reregister(tx, who, known.id, url, token_seconds, release_key)
    token = credentials.new("tcw")
    return await _registered(tx, await _insert(tx, who, new, group, token, token_seconds), token, url, release_key)


async def reregister(
    tx: Tx, who: Principal, reference: str, url: str, token_seconds: float, release_key: str = ""
) -> Registered:
    """Give a runner a new worker token. The old one ends, and the connections that were opened with it end within seconds."""
    runner = await hold(tx, who, reference)
    rules.require_not_declared(runner, "get a new token")
    if await deployments.get(tx, runner.id) is not None:
        raise Conflict(
            f"`{runner.path}` is cloud-hosted, and its token is in the secret store of its cloud: "
            "`terracrew runner redeploy --new-token` replaces it there"
        )
    if runner.removing_since is not None:
        raise Conflict(f"`{runner.path}` is being removed: undrain it first, which stops the removal")
    token = credentials.new("tcw")
    await store.set_worker_token(tx, runner.id, token.sha256, tx.now + token_seconds)
    await note(tx, who, "runner.replace_token", runner)
    tx.wake("access", runner.id)
    return await _registered(tx, runner, token, url, release_key)


async def _registered(tx: Tx, runner: Runner, token: Secret, url: str, release_key: str) -> Registered:
    environment = {
        "TERRACREW_API_URL": url,
        "TERRACREW_RUNNER__ID": runner.id,
        "TERRACREW_RUNNER__ORGANIZATION_ID": runner.organization_id or "",
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID": runner.id,
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN": token.text,
    }
    if release_key:  # it is pinned now: a runner never asks its server for it
        environment["TERRACREW_RUNNER_RELEASE_KEY"] = release_key
    command = "terracrew runner start"
    if runner.allow_multiple_instances:
        command += ' --instance "$(hostname)"'  # each of its processes needs a name of its own
    else:
        environment["TERRACREW_RUNNER__INSTANCE"] = runner.name
    view = await view_reads.view(tx, runner)
    return Registered(runner.id, runner.path, runner.id, token.text, environment, command, view)


async def changeable(tx: Tx, who: Principal, reference: str) -> Runner:
    """Return a runner that the caller may change."""
    return await find(tx, who, reference, Verb.RUNNER_WRITE)


async def change(tx: Tx, who: Principal, reference: str, wanted: RunnerChange) -> RunnerView:
    before = await hold(tx, who, reference)
    given = fields.given(wanted)
    if "group" in given:
        await _refuse_move(tx, given["group"])
    if "tags" in given:
        given["tags"] = normalized(given["tags"])
    rules.require_changeable(before, given)
    if "service_account" in given:
        given["service_account_id"] = await _account(tx, who, given.pop("service_account"), before)
    if "configuration" in given:
        given["configuration"] = configuration.changed(before.configuration, given["configuration"])
    is_assigned = given.pop("is_assigned_to_all_modules", None)
    if before.type == "cloud-hosted":
        await _require_kept(tx, before, given)
    if before.removing_since is not None and given.get("is_draining") is False:
        rules.require_not_retired(before)
        given["removing_since"] = None
    after = msgspec.structs.replace(before, **given)
    if after != before:
        await store.update(tx, after)
        changed = {field: given[field] for field in given if getattr(before, field) != getattr(after, field)}
        await note(tx, who, "runner.change", after, **changed)
        if after.service_account_id != before.service_account_id:
            tx.wake("access", after.id)
        if after.configuration != before.configuration:
            tx.wake("configuration", after.id)
    if is_assigned is not None:
        await _assign_to_group(tx, who, after, is_assigned)
    return await view_reads.view(tx, after)


async def _require_kept(tx: Tx, runner: Runner, given: dict[str, object]) -> None:
    """Refuse changes that a cloud-hosted runner cannot work with."""
    if given.get("allow_multiple_instances") is False:
        raise Conflict(f"`{runner.path}` is cloud-hosted: it has as many instances as its jobs need")
    deployment = await deployments.get(tx, runner.id)
    if given.get("is_draining") is False and deployment is not None and deployment.status == "removing":
        raise Conflict(
            f"`{runner.path}` is being removed from its cloud: cancel that job, which ends the drain as well"
        )


async def _assign_to_group(tx: Tx, who: Principal, runner: Runner, is_assigned: bool) -> None:
    """Assign a runner to its whole group, or take that assignment back. Assignments below the group stay."""
    if runner.is_shared:
        if not is_assigned:
            raise Conflict(f"`{runner.path}` is shared: it serves every module and takes no assignments")
        return
    organization_id, group_id, path = runner.organization_id or "", runner.group_id or "", runner.group or ""
    if is_assigned:
        if await assign(tx, runner, group_id, "group", organization_id, path):
            await note(tx, who, "runner.assign", runner, kind="group", place=path)
    elif await assignments.withdraw(tx, runner.id, group_id):
        await note(tx, who, "runner.withdraw", runner, kind="group", place=path)


async def note(tx: Tx, who: Principal, action: str, runner: Runner, **details: object) -> None:
    """Record a change and wake the scheduler, because other runners may be eligible for queued jobs now."""
    facts = {"path": runner.path, **details}
    await audit.record(tx, who, action, "runner", runner.id, facts, organization_id=runner.organization_id)
    tx.wake("runners", runner.id)
    tx.wake("assignments", runner.id)


async def _refuse_move(tx: Tx, group: str | None) -> None:
    if group is None:
        raise await rules.declaration_refusal(tx)
    raise Conflict("a runner stays in its group: register another one there, and remove this one")


async def _group(tx: Tx, who: Principal, reference: str | None) -> Group:
    if reference is None:
        raise await rules.declaration_refusal(tx)
    group = await groups.find(tx, who, reference)
    await authorize.require(tx, who, Verb.RUNNER_WRITE, groups.place(group), groups.unseen(reference))
    return group


async def _insert(
    tx: Tx,
    who: Principal,
    new: NewRunner,
    group: Group,
    token: Secret | None,
    token_seconds: float = 0.0,
    region: str | None = None,
) -> Runner:
    """Insert a runner. One with a region, which may be empty, is cloud-hosted."""
    path = paths.parse(paths.join(group.path, paths.name(new.name)))
    known = await store.at(tx, group.organization_id, path)
    if known is not None and not known.is_shared:
        raise Conflict(f"there is a runner `{path}` already; `replace` registers it anew, with a new token", path=path)
    runner = fields.created(
        Runner,
        new,
        id=ids.new("rnr"),
        organization_id=group.organization_id,
        group_id=group.id,
        name=new.name,
        path=path,
        type="self-hosted" if region is None else "cloud-hosted",
        region=region or None,
        tags=normalized(new.tags),
        created_at=tx.moment,
    )
    runner = msgspec.structs.replace(runner, service_account_id=await _account(tx, who, new.service_account, runner))
    await store.insert(tx, runner, token and token.sha256, tx.now + token_seconds if token else None)
    if new.assign:
        await assign(tx, runner, group.id, "group", group.organization_id, group.path)
    await note(tx, who, "runner.create", runner, is_assigned=new.assign)
    return runner


async def hold(tx: Tx, who: Principal, reference: str) -> Runner:
    """Return a runner that the caller may change, and lock its row until the transaction ends."""
    runner = await find(tx, who, reference, Verb.RUNNER_WRITE)
    held = await store.hold(tx, runner.id)
    if held is None:
        raise NotFound(f"runner `{reference}` has just been removed")
    return held


async def _account(tx: Tx, who: Principal, reference: str | None, runner: Runner) -> str | None:
    """Return the id of the service account. It may serve a runner of its own group or of a group below it, but no shared runner.

    An account is named by its id, or by its path if the caller may see the accounts of its group.
    """
    if reference is None:
        return None
    if runner.is_shared:
        raise Conflict(f"`{runner.path}` is shared and takes no service account")
    organization_id = runner.organization_id or ""
    account = await _find_account(tx, reference, organization_id)
    is_above = account is not None and paths.is_within(runner.group or "", account.group)
    if account is not None and is_above and ids.is_id("sac", reference):
        return account.id
    seen = await authorize.visible(tx, who, Verb.ACCESS_READ)
    if account is None or not seen.covers(authorize.group(organization_id, account.group)):
        raise Invalid.in_field("service_account", f"there is no service account {reference}, or you may not see it")
    if not is_above:
        raise Invalid.in_field(
            "service_account", f"it belongs to `{account.group}`, which is neither `{runner.group}` nor above it"
        )
    return account.id


async def _find_account(tx: Tx, reference: str, organization_id: str) -> store.AccountPlace | None:
    if ids.is_id("sac", reference):
        return await store.service_account(tx, ids.parse("sac", reference), organization_id)
    group, name = paths.split(paths.parse(reference))
    return await store.service_account_at(tx, organization_id, group, name)


async def open_alerts(tx: Tx, who: Principal, reference: str) -> Page[RunnerAlert]:
    """Return what nobody has acknowledged. Addresses are shown only to those who may change the runner."""
    runner = await find(tx, who, reference, Verb.RUNNER_WRITE)
    return Page(await alert_store.shown(tx, runner.id, MAX_SHOWN_ALERTS))


async def acknowledge_alerts(tx: Tx, who: Principal, reference: str, what: Acknowledgement) -> Page[RunnerAlert]:
    """Acknowledge alerts, and return those that are left."""
    runner = await find(tx, who, reference, Verb.RUNNER_WRITE)
    until = tx.now if what.until is None else min(tx.now, what.until.astimezone(UTC).timestamp())
    rows = await alert_store.acknowledge(tx, runner.id, until, who.name)
    found = sorted({(str(row["kind"]), str(row["instance"])) for row in rows})
    said = [f"{kind} {instance}".strip() for kind, instance in found]
    await note(tx, who, "runner.acknowledge", runner, alerts=said)
    return Page(await alert_store.shown(tx, runner.id, MAX_SHOWN_ALERTS))


async def assign(tx: Tx, runner: Runner, place_id: str, kind: PlaceKind, organization_id: str, path: str) -> bool:
    """Let a place use the runner. Returns False if it already could. A runner serves nothing outside its own group."""
    if runner.is_shared:
        raise Conflict(f"`{runner.path}` is shared: it serves every module and takes no assignments")
    if runner.removing_since is not None:
        raise Conflict(f"`{runner.path}` is being removed: undrain it first, which stops the removal")
    if organization_id != runner.organization_id:
        raise NotFound(f"there is no {kind} `{path}` here, or you may not see it")
    own = runner.group or ""
    if not paths.is_within(path, own):
        place = f"{kind} `{path}`" if path else "the organization"
        raise Invalid(f"{place} is outside of `{own}`: a runner can only be assigned inside its own group")
    return await assignments.insert(tx, runner.id, place_id, kind, organization_id, path)


async def prune_instances(tx: Tx, before: float, count: int) -> int:
    """Remove instances that disconnected before this time. Their names are kept for the attempts that they ran."""
    rows = await instance_store.delete_gone(tx, before, count)
    await store.keep_names(tx, [(row["id"], row["name"]) for row in rows])
    return len(rows)


async def prune_names(tx: Tx, before: float, count: int) -> int:
    """Forget removed runners and instances that no attempt refers to."""
    return await store.delete_names(tx, before, count)
