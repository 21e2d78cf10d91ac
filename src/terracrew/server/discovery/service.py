"""Makes, changes, shows, deletes and tries out discovery rules, and checks that the caller may do so.

A rule takes the right to change its group. That is asked when somebody makes or changes it: it acts for the group from then on, and not
for the person. Whoever may see the group sees its rules, and what they have found.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from terracrew import ids
from terracrew.api import fields
from terracrew.api.discovery import (
    DiscoveredFolder,
    DiscoveryChange,
    DiscoveryPreview,
    DiscoveryRuleDetails,
    DiscoveryRuleView,
    DiscoverySettings,
    NewDiscoveryRule,
)
from terracrew.api.pages import Page
from terracrew.api.tags import normalized
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.protocol.spec import GitSource
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import looking, naming, patterns, reads, store, unmarking
from terracrew.server.discovery.model import DiscoveryRule
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.engines import model as engines
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path as paths
from terracrew.source_rules import git as git_rules

MAX_RULES = 200
"""For each organization."""
MAX_REFERENCE_CHARACTERS = 2_000
PREVIEW_PATH = "preview"
"""The API shows the preview of a new rule at this address, so that no rule can have it as its path."""
PREVIEW_SECONDS = 20.0
"""How long a request for a preview waits for the repository. The command line asks again."""


async def create(tx: Tx, who: Principal, new: NewDiscoveryRule) -> DiscoveryRuleView:
    """Make a rule of a group that the caller may change."""
    made = await _new(tx, who, new)
    if await store.count(tx, made.organization_id) >= MAX_RULES:
        raise Conflict(f"the organization has {MAX_RULES} discovery rules: delete one that is no longer needed")
    await looking.connection_of(tx, made)
    await _check_name(tx, made)
    await store.insert(tx, made)
    await _record(tx, who, made, "discovery.create", url=made.url, branch=made.branch)
    tx.wake("forges", "")  # the repository begins to be watched
    return await view(tx, made)


async def change(tx: Tx, who: Principal, reference: str, wanted: DiscoveryChange) -> DiscoveryRuleView:
    """Change a rule. Modules that it has made stay as they are, but a rule that is disabled marks none any longer."""
    before = await _hold(tx, who, reference)
    after = fields.changed(before, wanted)
    after = replace(after, tags=normalized(after.tags), engine_version=after.engine_version.strip())
    _check(after, after.url, after.branch)
    if after == before:
        return await view(tx, before)
    if after.name != before.name:
        await _check_name(tx, after)
    now = tx.moment
    after = replace(after, changed_at=now, revision=before.revision + 1, due_at=now, failures=0)
    await store.change(tx, after)
    changed = [name for name in DiscoverySettings.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    await _record(tx, who, after, "discovery.change", changed=changed)
    if before.is_enabled and not after.is_enabled:
        await unmarking.unmark(tx, after)
    if after.is_enabled != before.is_enabled:
        tx.wake("forges", "")
    return await view(tx, after)


async def delete(tx: Tx, who: Principal, reference: str) -> DiscoveryRule:
    """Delete a rule. Its modules stay, and those that it has marked are marked no longer, because nobody looks at their folders."""
    found = await _hold(tx, who, reference)
    await unmarking.unmark(tx, found)
    await store.delete(tx, found.id)
    await _record(tx, who, found, "discovery.delete")
    tx.wake("forges", "")
    return found


async def delete_group(tx: Tx, who: Principal, reference: str) -> None:
    """Delete an empty group and its rules. Modules that they have made and that were moved elsewhere are marked no longer."""
    group = await groups.find(tx, who, reference)
    await authorize.require(tx, who, Verb.TREE_WRITE, groups.place(group), groups.unseen(reference))
    for each in await reads.of_group(tx, group.id):
        if (rule := await store.hold(tx, each.id)) is not None:
            await unmarking.unmark(tx, rule)
    await groups.delete(tx, who, reference)


async def run(tx: Tx, who: Principal, reference: str) -> DiscoveryRuleView:
    """Let a rule be looked at again at once."""
    found = await _hold(tx, who, reference)
    if not found.is_enabled:
        raise Conflict(f"the rule {found.path} is not enabled: enable it, or look at its preview")
    await store.make_due(tx, found.id)
    await _record(tx, who, found, "discovery.run")
    return await view(tx, found)


async def show(tx: Tx, who: Principal, reference: str) -> DiscoveryRuleDetails:
    found = await find(tx, who, reference)
    folders = [_shown(each) for each in await store.folders_of(tx, found.id)]
    return fields.created(DiscoveryRuleDetails, await view(tx, found), folders=folders)


async def listing(tx: Tx, who: Principal, group: str, after: str | None, limit: int) -> Page[DiscoveryRuleView]:
    """Return the rules of the groups that the caller may see; with `group`, those of this group itself."""
    if group:
        at = await groups.show(tx, who, group)
        return Page(await _views(tx, await reads.of_group(tx, at.id)))
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    found = page(await reads.page(tx, who.organization_id or "", seen, start(after), limit + 1), limit)
    return Page(await _views(tx, found.items), found.next)


async def preview(tools: DiscoveryTools, who: Principal, new: NewDiscoveryRule) -> DiscoveryPreview:
    """Return what a new rule would make. It takes the right to make it, because it reads a repository for the group."""

    async def begin(tx: Tx) -> DiscoveryRule:
        made = await _new(tx, who, new)
        await looking.connection_of(tx, made)
        await _record(tx, who, made, "discovery.preview", url=made.url, branch=made.branch)
        return made

    return await _preview(tools, await tools.db.write(begin))


async def preview_of(
    tools: DiscoveryTools, who: Principal, reference: str, wanted: DiscoveryChange
) -> DiscoveryPreview:
    """Return what a rule would make after a change."""

    async def begin(tx: Tx) -> DiscoveryRule:
        before = await find(tx, who, reference, Verb.TREE_WRITE)
        after = fields.changed(before, wanted)
        _check(after, after.url, after.branch)
        await _record(tx, who, before, "discovery.preview", url=before.url, branch=before.branch)
        return after

    return await _preview(tools, await tools.db.write(begin))


async def _preview(tools: DiscoveryTools, rule: DiscoveryRule) -> DiscoveryPreview:
    at = await looking.unwatched(tools, rule)
    await looking.begin_to_fetch(tools, rule, at, PREVIEW_SECONDS)
    found = await looking.look(tools, rule, at)
    plan = await tools.db.read_in_background(lambda tx: looking.planned(tx, rule, found))
    return DiscoveryPreview(commit_id=found.commit_id, branch=found.branch, problem=plan.problem, folders=plan.folders)


async def find(tx: Tx, who: Principal, reference: str, verb: Verb = Verb.TREE_READ) -> DiscoveryRule:
    """Find a rule by its id or its path (`group/name`), if the caller has the right to do `verb` in its group."""
    unseen = NotFound(f"there is no discovery rule `{reference[:300]}` here, or you may not see it")
    found = None
    if ids.is_id("dsc", reference):
        found = await store.get(tx, ids.parse("dsc", reference))
    elif reference.isprintable() and len(reference) <= MAX_REFERENCE_CHARACTERS:
        found = await store.at(tx, who.organization_id or "", *paths.split(reference))
    if found is None:
        raise unseen
    await authorize.require(tx, who, verb, place(found), unseen)
    return found


async def view(tx: Tx, rule: DiscoveryRule) -> DiscoveryRuleView:
    return (await _views(tx, [rule]))[0]


def place(rule: DiscoveryRule) -> authorize.Place:
    return authorize.group(rule.organization_id, rule.group)


async def _views(tx: Tx, rules: Sequence[DiscoveryRule]) -> list[DiscoveryRuleView]:
    counts = await reads.counts(tx, [each.id for each in rules])
    return [fields.created(DiscoveryRuleView, each, path=each.path, counts=counts[each.id]) for each in rules]


async def _new(tx: Tx, who: Principal, new: NewDiscoveryRule) -> DiscoveryRule:
    """Return the rule that somebody wants, if they may make it. It is not stored."""
    path = paths.parse(new.group.strip("/"))
    organization_id = who.organization_id or ""
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(organization_id, path))
    group = await groups.at(tx, who, path)
    _check(new, new.url, new.branch)
    return fields.created(
        DiscoveryRule,
        new,
        id=ids.new("dsc"),
        organization_id=group.organization_id,
        group_id=group.id,
        group=group.path,
        tags=normalized(new.tags),
        engine_version=new.engine_version.strip(),
        created_by=who.id,
        created_by_name=who.name,
        created_at=tx.moment,
        changed_at=tx.moment,
        due_at=tx.moment,
    )


async def _hold(tx: Tx, who: Principal, reference: str) -> DiscoveryRule:
    found = await find(tx, who, reference, Verb.TREE_WRITE)
    held = await store.hold(tx, found.id)
    if held is None:
        raise NotFound(f"the discovery rule {found.path} has just been deleted")
    return held


def _check(wanted: DiscoverySettings, url: str, branch: str) -> None:
    paths.name(wanted.name)
    for name in ("include", "exclude"):
        for pattern in getattr(wanted, name):
            if problem := patterns.problem(pattern):
                raise Invalid.in_field(name, f"{pattern[:100]!r} is no pattern of folders: {problem}")
    if problem := naming.template_problem(wanted.module_path):
        raise Invalid.in_field("module_path", problem)
    if version := wanted.engine_version.strip():
        engines.check_range(version)
    try:
        git_rules.check(GitSource(url, branch=branch, credential=wanted.credential))
    except Invalid as error:
        raise Invalid.in_field((error.field or "url").removeprefix("source."), error.reason) from None


async def _check_name(tx: Tx, rule: DiscoveryRule) -> None:
    if rule.path == PREVIEW_PATH:
        raise Invalid.in_field("name", f"a rule of the organization cannot be called `{PREVIEW_PATH}`: choose another")
    if any(each.name == rule.name for each in await reads.of_group(tx, rule.group_id)):
        where = f"group `{rule.group}`" if rule.group else "the organization"
        raise Conflict(f"{where} has a discovery rule `{rule.name}` already", field="name")


def _shown(row: DiscoveredFolder) -> DiscoveredFolder:
    return fields.created(DiscoveredFolder, row)


async def _record(tx: Tx, who: Principal, rule: DiscoveryRule, action: str, **details: object) -> None:
    named = {"group": rule.group, "name": rule.name, **details}
    await audit.record(tx, who, action, "discovery_rule", rule.id, named, organization_id=rule.organization_id)
    tx.wake("discovery", rule.id)
