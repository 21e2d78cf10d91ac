"""Makes the modules of a rule, each in a transaction of its own, and marks modules whose folder is gone or has come back.

A server that ends in the middle, or that another one has replaced, leaves only whole modules behind, and the next look goes on.
"""

from msgspec.structs import replace

from terracrew.api.discovery import DiscoveredFolder
from terracrew.api.groups import NewGroup
from terracrew.api.jobs import JobOrigin, NewJob
from terracrew.api.modules import NewModule
from terracrew.errors import Conflict, Invalid, TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.protocol.spec import GitSource, JobType
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import decide, finding, reads, store
from terracrew.server.discovery.looking import RuleLook
from terracrew.server.discovery.model import DiscoveryRule, FolderPlan, RuleFolder
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.forges import repository_store
from terracrew.server.forges.reads import GitModule
from terracrew.server.jobs import create
from terracrew.server.jobs.create import JobRequest
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.modules import reads as module_reads
from terracrew.server.tree.modules import service as modules
from terracrew.source_rules import configurations

log = get_logger("terracrew.discovery")


class RuleTaken(TerracrewError):
    """Another server works on the rule by now, or somebody has changed or deleted it: this look at it does not count."""


async def held(tx: Tx, tools: DiscoveryTools, rule: DiscoveryRule) -> DiscoveryRule:
    """Hold the row of a rule that this server works on, as it was when it began. Raises RuleTaken."""
    row = await store.hold(tx, rule.id)
    if row is None or row.lease_holder != tools.server_id or row.revision != rule.revision or row.group != rule.group:
        raise RuleTaken("the rule was changed, or another server works on it")
    return row


async def carry_out(tools: DiscoveryTools, rule: DiscoveryRule, found: RuleLook, plan: FolderPlan) -> FolderPlan:
    """Make the modules of all new folders. Returns what has become of the folders: a path may just have been taken."""
    after: dict[str, DiscoveredFolder] = {}
    for each in plan.new:
        try:
            after[each.folder] = await tools.db.write(lambda tx, each=each: _make(tx, tools, rule, found, each))
        except (RuleTaken, Unavailable):
            raise
        except TerracrewError as error:  # the other folders get their modules all the same
            state = "conflict" if isinstance(error, Conflict) else "invalid"
            after[each.folder] = replace(each, state=state, reason=error.message)
    return replace(plan, folders=[after.get(each.folder, each) for each in plan.folders])


async def _make(
    tx: Tx, tools: DiscoveryTools, rule: DiscoveryRule, found: RuleLook, folder: DiscoveredFolder
) -> DiscoveredFolder:
    """Make the module of a folder, and write that it was made.

    The row of the repository is locked first: rules of one repository make modules one after the other, on all servers. So a
    rule sees the module that another rule has made of the folder since this look began.
    """
    if await repository_store.hold(tx, found.at.repository.id) is None:
        raise RuleTaken("the connection of the rule was deleted")
    await held(tx, tools, rule)
    for module in await reads.tracked_modules(tx, found.at.repository, found.branch, folder.folder):
        if paths.is_within(module.path, rule.group):
            return decide.kept(folder.folder, module.id, module.path)
    who = rule.principal
    above, _ = paths.split(folder.path)
    if not paths.is_within(folder.path, rule.group):  # `naming` sees to it, and no repository may lead elsewhere
        raise Invalid(f"`{folder.path}` is not in the group `{rule.group}`")
    if above not in ("", rule.group) and above not in await module_reads.taken_paths(tx, rule.organization_id, [above]):
        await groups.create(tx, who, NewGroup(path=above), make_parents=True)
    new = NewModule(
        path=folder.path,
        source=GitSource(rule.url, branch=rule.branch, subdirectory=folder.folder, credential=rule.credential),
        engine=rule.engine,
        engine_version=rule.engine_version,
        tags=rule.tags,
        needs_approval=rule.needs_approval,
    )
    module = await modules.create(tx, who, new, tools.roots, tools.keys)
    made = replace(folder, state="made", module_id=module.id, reason="")
    await store.put_folders(tx, [row_of(rule, made, tx)])
    if rule.plans_new:
        await _plan(tx, tools, rule, found, module.id)
    return made


async def _plan(tx: Tx, tools: DiscoveryTools, rule: DiscoveryRule, found: RuleLook, module_id: str) -> None:
    origin = JobOrigin(kind="discovery", name=rule.name, id=rule.id, commit=found.commit_id)
    request = JobRequest(rule.principal, module_id, NewJob(JobType.PLAN), origin=origin)
    [made] = await create.create_all(tx, [request], keys=tools.keys, roots=tools.roots, quotas=tools.quotas)
    if isinstance(made, TerracrewError):  # the module is there all the same, and people can plan it
        log.warning("a new module is not planned", rule=rule.id, module=module_id, reason=made.message)


def row_of(rule: DiscoveryRule, folder: DiscoveredFolder, tx: Tx) -> RuleFolder:
    return RuleFolder(
        rule_id=rule.id,
        folder=folder.folder,
        path=folder.path,
        state=folder.state,
        module_id=folder.module_id,
        reason=folder.reason,
        changed_at=tx.moment,
    )


async def finish(tx: Tx, tools: DiscoveryTools, rule: DiscoveryRule, after: DiscoveryRule, plan: FolderPlan) -> None:
    """Write what has become of the folders of a look, and give the rule back."""
    row = await held(tx, tools, rule)
    before = {each.folder: each for each in await store.folders_of(tx, rule.id)}
    now = {each.folder: row_of(rule, each, tx) for each in plan.folders}
    changed = [
        each
        for folder, each in now.items()
        if (old := before.get(folder)) is None or replace(old, changed_at=tx.moment) != each
    ]
    await store.put_folders(tx, changed)
    await store.remove_folders(tx, rule.id, [each for each in before if each not in now])
    due_at = row.due_at if row.due_at != rule.due_at else after.due_at  # somebody may have asked meanwhile
    await store.save_look(tx, replace(after, due_at=due_at, lease_holder=None, lease_until=None))
    if changed or len(before) != len(now) or (after.commit_id, after.problem) != (rule.commit_id, rule.problem):
        tx.wake("discovery", rule.id)


async def mark(tools: DiscoveryTools, rule: DiscoveryRule, found: RuleLook) -> None:
    """Mark the modules of the rule's group, and those that it has made, whose folder is gone; take the mark from those that have one.

    Nothing is planned, destroyed or deleted.
    """
    repository = found.at.repository

    async def read(tx: Tx) -> list[GitModule]:
        made = {each.module_id for each in await store.folders_of(tx, rule.id) if decide.is_made(each)}
        tracked = await reads.tracked_modules(tx, repository, found.branch)
        return [each for each in tracked if each.id in made or paths.is_within(each.path, rule.group)]

    configured: dict[str, frozenset[str]] = {}
    for each in await tools.db.read_in_background(read):
        if each.engine not in configurations.PATTERNS:
            continue  # only its package knows what its configuration is
        if each.engine not in configured:
            configured[each.engine] = finding.of_engine(found.commit, each.engine)
        gone = "" if each.folder in configured[each.engine] else found.commit_id
        if bool(gone) != bool(each.source_gone):
            await tools.db.write(lambda tx, each=each, gone=gone: _mark(tx, tools, rule, each, gone))


async def _mark(tx: Tx, tools: DiscoveryTools, rule: DiscoveryRule, module: GitModule, gone: str) -> None:
    await held(tx, tools, rule)
    await modules.mark_source(tx, rule.principal, module.id, module.source, gone)
