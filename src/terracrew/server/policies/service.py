"""Makes, changes, activates, retires, shows and deletes policies, and checks that the caller may do so.

A policy takes the right to change its place. So nobody weakens one from below it, and whoever may see a place sees what looks at its plans.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from terracrew import ids
from terracrew.api import fields
from terracrew.api.pages import Page
from terracrew.api.policies import (
    NewPlanPolicy,
    NewPolicyVersion,
    PolicyActivation,
    PolicyChange,
    PolicyDetails,
    PolicySettings,
    PolicyVersionView,
    PolicyView,
)
from terracrew.errors import Conflict, NotFound, Unavailable
from terracrew.logging import get_logger
from terracrew.server import time_zones
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.policies import reads, store
from terracrew.server.policies.model import Policy, PolicyVersion
from terracrew.server.policies.opa import Opa, OpaBusy
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.modules import service as modules

FRESH_SECONDS = 10.0
"""How long the answer holds whether policies can be evaluated."""
CANNOT_EVALUATE = (
    "policies are active, and this server has no usable Open Policy Agent: install it by `terracrew engine install opa`"
)
log = get_logger("terracrew.policies")
MAX_POLICIES = 200
"""For each organization."""
MAX_VERSIONS = 200
"""For each policy."""
MAX_REFERENCE_CHARACTERS = 2_000


class Policies:
    """What needs the policy checker: a version is compiled before it is stored, and again before it is activated."""

    def __init__(self, db: Database, opa: Opa, clock: Callable[[], float] = time.monotonic) -> None:
        self._db, self._opa, self._clock = db, opa, clock
        self._problem, self._checked_at = "", float("-inf")

    async def problem(self) -> str:
        """Return why this server lets policies stop plans that they do not deny; empty if it can evaluate those that are active.

        The answer is public, so the reason itself is in the log.
        """
        if self._clock() - self._checked_at >= FRESH_SECONDS:
            found = ""
            try:
                if await self._db.read(reads.is_any_active):
                    await self._opa.program()
            except Unavailable as error:
                found = error.message
            if found and not self._problem:
                log.warning("policies are active and cannot be evaluated here", reason=found)
            self._problem, self._checked_at = found, self._clock()
        return CANNOT_EVALUATE if self._problem else ""

    async def create(self, who: Principal, new: NewPlanPolicy) -> PolicyView:
        """Make a policy at a place that the caller may change. It is a draft."""
        return await self._with_rego(who, new.rego, lambda tx: _new(tx, who, new), lambda tx: _create(tx, who, new))

    async def add_version(self, who: Principal, reference: str, new: NewPolicyVersion) -> PolicyView:
        """Add a version to a policy. The one that is active stays so."""

        async def may(tx: Tx) -> None:
            await find(tx, who, reference, Verb.TREE_WRITE)

        return await self._with_rego(who, new.rego, may, lambda tx: _add_version(tx, who, reference, new))

    async def activate(self, who: Principal, reference: str, asked: PolicyActivation) -> PolicyView:
        """Let a version look at every plan that is applied from now on, also at those that wait for an approval."""

        async def read(tx: Tx) -> tuple[int, str]:
            found = await find(tx, who, reference, Verb.TREE_WRITE)
            number = asked.version or found.newest_version
            version = await store.version(tx, found.id, number)
            if version is None:
                raise NotFound(f"the policy {found.path} has no version {number}")
            return number, version.rego

        number, rego = await self._db.read(read)
        await self._opa.check(rego, who.organization_id or "")
        return await self._db.write(lambda tx: _activate(tx, who, reference, number))

    async def _with_rego(
        self,
        who: Principal,
        rego: str,
        may: Callable[[Tx], Awaitable[object]],
        work: Callable[[Tx], Awaitable[PolicyView]],
    ) -> PolicyView:
        await self._db.read(may)  # nobody else has the server compile anything
        # A server without the program stores drafts. It activates none.
        try:
            await self._opa.check(rego, who.organization_id or "")
        except OpaBusy:
            raise
        except Unavailable:
            pass
        return await self._db.write(work)


async def _create(tx: Tx, who: Principal, new: NewPlanPolicy) -> PolicyView:
    made = await _new(tx, who, new)
    if await store.count(tx, made.organization_id) >= MAX_POLICIES:
        raise Conflict(f"the organization has {MAX_POLICIES} policies: delete one that is no longer needed")
    await store.insert(tx, made)
    await _insert_version(tx, who, made, 1, new.rego)
    await _record(tx, who, made, "policy.create", enforcement=made.enforcement)
    return view(made)


async def _add_version(tx: Tx, who: Principal, reference: str, new: NewPolicyVersion) -> PolicyView:
    before = await _hold(tx, who, reference)
    newest = await store.version(tx, before.id, before.newest_version)
    if newest is not None and newest.rego == new.rego:
        raise Conflict(f"version {newest.number} of the policy {before.path} has the same text")
    if before.newest_version >= MAX_VERSIONS:
        raise Conflict(f"the policy {before.path} has {MAX_VERSIONS} versions: make a new policy of it")
    after = replace(before, newest_version=before.newest_version + 1, changed_at=tx.moment)
    await store.change(tx, after)
    await _insert_version(tx, who, after, after.newest_version, new.rego)
    await _record(tx, who, after, "policy.version", version=after.newest_version)
    return view(after)


async def change(tx: Tx, who: Principal, reference: str, wanted: PolicyChange) -> PolicyView:
    """Change what follows from what a policy says, or how it is called."""
    before = await _hold(tx, who, reference)
    after = fields.changed(before, wanted)
    _check(after)
    if after == before:
        return view(before)
    after = replace(after, changed_at=tx.moment)
    if after.name != before.name:
        await _check_name(tx, after)
    await store.change(tx, after)
    changed = [name for name in PolicySettings.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    await _record(tx, who, after, "policy.change", changed=changed, enforcement=after.enforcement)
    return view(after)


async def _activate(tx: Tx, who: Principal, reference: str, number: int) -> PolicyView:
    before = await _hold(tx, who, reference)
    after = replace(before, state="active", active_version=number, changed_at=tx.moment)
    await store.change(tx, after)
    await _record(tx, who, after, "policy.activate", version=number, enforcement=after.enforcement)
    return view(after)


async def retire(tx: Tx, who: Principal, reference: str) -> PolicyView:
    """Let a policy look at no plan any more. Its versions stay, and it can be activated again."""
    before = await _hold(tx, who, reference)
    if before.state != "active":
        raise Conflict(f"the policy {before.path} is not active")
    after = replace(before, state="retired", active_version=None, changed_at=tx.moment)
    await store.change(tx, after)
    await _record(tx, who, after, "policy.retire", version=before.active_version)
    return view(after)


async def delete(tx: Tx, who: Principal, reference: str) -> Policy:
    """Delete a policy with its versions. What it has said about plans stays with their jobs."""
    found = await _hold(tx, who, reference)
    await store.delete(tx, found.id)
    await _record(tx, who, found, "policy.delete")
    return found


async def show(tx: Tx, who: Principal, reference: str) -> PolicyDetails:
    found = await find(tx, who, reference)
    versions = [fields.created(PolicyVersionView, each) for each in await store.versions(tx, found.id)]
    return fields.created(PolicyDetails, view(found), versions=versions)


async def listing(tx: Tx, who: Principal, at: str | None = None) -> Page[PolicyView]:
    """Return the policies that look at something that the caller may see; with a place (empty for the organization), those that look at
    its plans: its own, and those of all groups above."""
    if at is None:
        seen = await authorize.visible(tx, who, Verb.TREE_READ)
        found = await store.of_organization(tx, who.organization_id or "")
        return Page([view(each) for each in found if _is_seen(seen, each)])
    group_id, module_id = await _place(tx, who, paths.parse(at.strip("/")), Verb.TREE_READ)
    if module_id is not None:
        return Page([view(each) for each in await reads.of_module(tx, module_id)])
    return Page([view(each) for each in await reads.of_group(tx, group_id or "")])


async def find(tx: Tx, who: Principal, reference: str, verb: Verb = Verb.TREE_READ) -> Policy:
    """Find a policy by its id or its path (`place/name`), if the caller has the right to do `verb` at its place. Everybody sees the
    policies that look at something they may see."""
    unseen = NotFound(f"there is no policy `{reference[:300]}` here, or you may not see it")
    found = None
    if ids.is_id("pol", reference):
        found = await store.get(tx, ids.parse("pol", reference))
    elif reference.isprintable() and len(reference) <= MAX_REFERENCE_CHARACTERS:
        found = await store.at(tx, who.organization_id or "", *paths.split(reference))
    if found is None:
        raise unseen
    if not _is_seen(await authorize.visible(tx, who, Verb.TREE_READ), found):
        raise unseen
    if verb is not Verb.TREE_READ and not (await authorize.decide(tx, who, verb, found.at)).is_allowed:
        raise authorize.forbidden(verb, found.at)
    return found


def _is_seen(seen: Visible, policy: Policy) -> bool:
    is_above = policy.organization_id == seen.organization_id and not policy.is_of_module
    return seen.covers(policy.at) or (is_above and seen.leads_to(policy.place))


def view(policy: Policy) -> PolicyView:
    return fields.created(PolicyView, policy, path=policy.path, is_of_module=policy.is_of_module)


async def _new(tx: Tx, who: Principal, new: NewPlanPolicy) -> Policy:
    """Return the policy that somebody wants, if they may make it. It is not stored."""
    path = paths.parse(new.place.strip("/"))
    group_id, module_id = await _place(tx, who, path, Verb.TREE_WRITE)
    _check(new)
    made = fields.created(
        Policy,
        new,
        id=ids.new("pol"),
        organization_id=who.organization_id or "",
        group_id=group_id,
        module_id=module_id,
        place=path,
        created_by=who.id,
        created_by_name=who.name,
        created_at=tx.moment,
        changed_at=tx.moment,
    )
    await _check_name(tx, made)
    return made


async def place(tx: Tx, who: Principal, path: str, verb: Verb) -> authorize.Place:
    """Return the group or module at this path, if the caller has the right to do `verb` there."""
    _, module_id = await _place(tx, who, path, verb)
    organization_id = who.organization_id or ""
    return authorize.group(organization_id, path) if module_id is None else authorize.module(organization_id, path)


async def _place(tx: Tx, who: Principal, path: str, verb: Verb) -> tuple[str | None, str | None]:
    """Return the id of the group or of the module at this path, if the caller has the right to do `verb` there."""
    try:
        group = await groups.at(tx, who, path)
    except NotFound:
        return None, (await modules.find(tx, who, path, verb, _no_place())).id
    await authorize.require(tx, who, verb, groups.place(group), _no_place())
    return group.id, None


def _no_place() -> NotFound:
    return NotFound("there is no such group or module here, or you may not see it")


async def _hold(tx: Tx, who: Principal, reference: str) -> Policy:
    found = await find(tx, who, reference, Verb.TREE_WRITE)
    held = await store.hold(tx, found.id)
    if held is None:
        raise NotFound(f"the policy {found.path} has just been deleted")
    await authorize.require(tx, who, Verb.TREE_WRITE, held.at)  # its module may have moved meanwhile
    return held


def _check(wanted: PolicySettings) -> None:
    paths.name(wanted.name)
    time_zones.zone(wanted.time_zone)


async def _check_name(tx: Tx, policy: Policy) -> None:
    if await store.at(tx, policy.organization_id, policy.place, policy.name) is not None:
        raise Conflict(f"there is a policy {policy.path} already")


async def _insert_version(tx: Tx, who: Principal, policy: Policy, number: int, rego: str) -> None:
    made = PolicyVersion(
        policy_id=policy.id,
        number=number,
        rego=rego,
        sha256=hashlib.sha256(rego.encode()).hexdigest(),
        created_by=who.id,
        created_by_name=who.name,
        created_at=tx.moment,
    )
    await store.insert_version(tx, made)


async def _record(tx: Tx, who: Principal, policy: Policy, action: str, **details: object) -> None:
    details = {"name": policy.name, "place": policy.place or "the organization", **details}
    await audit.record(tx, who, action, "policy", policy.id, details, organization_id=policy.organization_id)
    tx.wake("tree", policy.group_id or policy.module_id or "")
