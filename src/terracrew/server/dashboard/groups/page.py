"""What the page of a group shows: the groups and modules in it, its runners, and the settings that apply."""

import msgspec

from terracrew.api.group_runs import GroupRun
from terracrew.api.groups import Group
from terracrew.api.jobs import JobStatus
from terracrew.api.runners import RunnerView
from terracrew.server.dashboard import render
from terracrew.server.dashboard.discovery import page as discovery
from terracrew.server.dashboard.discovery.page import DiscoveryPanel
from terracrew.server.dashboard.forges import page as forges
from terracrew.server.dashboard.forges.page import ForgesPanel
from terracrew.server.dashboard.modules import page as modules
from terracrew.server.dashboard.modules.page import ModuleRow
from terracrew.server.dashboard.notifications import page as notifications
from terracrew.server.dashboard.notifications.page import ChannelsPanel
from terracrew.server.dashboard.policies import page as policies
from terracrew.server.dashboard.policies.page import PolicyPanel
from terracrew.server.dashboard.registry import page as registry
from terracrew.server.dashboard.registry.page import RegistryPanel
from terracrew.server.dashboard.schedules import page as schedules
from terracrew.server.dashboard.schedules.page import SchedulesPanel
from terracrew.server.dashboard.tree import inputs, steps
from terracrew.server.dashboard.tree.inputs import InputsPanel
from terracrew.server.dashboard.tree.steps import StepsPanel
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import patterns
from terracrew.server.group_runs import service as group_runs
from terracrew.server.group_runs.model import RunModule
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads as runner_reads
from terracrew.server.runners import view_reads
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import inheritance, organization_store, reads, service
from terracrew.server.tree.groups.inheritance import EffectiveRule
from terracrew.server.tree.modules import places
from terracrew.server.tree.modules import reads as module_reads

HERE = "/dashboard/groups"
PAGE_ROWS = 50
MAX_RUN_MODULES = 8
"""How many modules of a run the page of a group shows; the page of the run shows all of them."""
MAX_RUNNERS = 5
"""How many runners the page of a group shows; the runners page shows all of them."""


class GroupHead(msgspec.Struct, frozen=True):
    """What the head of every page of a group needs: the way to it, and what the reader may do with it."""

    group: Group
    lineage: list[Group]
    """The group and all groups above it, the nearest first."""
    may_change: bool
    """Whether the reader may create groups in it, change its settings and delete it."""
    may_read_access: bool
    may_cancel: bool = False
    """Whether the reader may cancel all jobs of the modules in and below it."""
    may_run: bool = False
    """Whether the reader may apply and destroy all modules in and below it."""
    organization: str = ""
    """The name of the organization that the group is in. An administrator may look at a group of another one than their own."""

    @property
    def title(self) -> str:
        """Return the path of the group; for the organization itself, its name."""
        return self.group.path or self.organization

    @property
    def above(self) -> list[Group]:
        """Return the groups above it, the organization first."""
        return self.lineage[:0:-1]


class GroupRow(msgspec.Struct, frozen=True):
    group: Group
    groups: int | None = None
    """How many groups are directly in it, counted up to one more than `render.MAX_COUNTED`; None if the reader may not see all."""
    modules: int | None = None


class RunPanel(msgspec.Struct, frozen=True):
    """The newest run of a group."""

    run: GroupRun
    done: int
    """How many modules have succeeded."""
    count: int
    lines: list[tuple[RunModule, JobStatus | None]]
    """The first modules that have not, with the status of their jobs."""


class GroupPage(msgspec.Struct, frozen=True):
    head: GroupHead
    groups: list[GroupRow]
    modules: list[ModuleRow]
    runners: list[RunnerView]
    settings: dict[str, EffectiveRule]
    modules_below: int | None
    """How many modules are in the group and below it; None if the reader may not see all of them."""
    inputs: InputsPanel | None
    steps: StepsPanel | None
    """None if the reader may not see the group itself."""
    schedules: SchedulesPanel | None
    discovery: DiscoveryPanel | None
    registry: RegistryPanel | None
    policies: PolicyPanel | None
    channels: ChannelsPanel | None
    forges: ForgesPanel | None
    run: RunPanel | None = None
    """The newest run of all of its modules; None if there was none, or if the reader may not see the group itself."""
    groups_after: str = ""
    next_group: str = ""
    """The name of the last group that is shown, if there are more."""
    modules_after: str = ""
    next_module: str = ""
    has_more_runners: bool = False


async def read_head(tx: Tx, who: Principal, reference: str) -> GroupHead:
    """Find a group that the reader may see, or that leads to something that they may see."""
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    group = await service.on_the_way(tx, who, reference, seen)
    place = service.place(group)
    return GroupHead(
        group,
        await reads.lineage(tx, group.id),
        may_change=await authorize.may(tx, who, Verb.TREE_WRITE, place),
        may_read_access=await authorize.may(tx, who, Verb.ACCESS_READ, place),
        may_cancel=await authorize.may(tx, who, Verb.JOB_CANCEL, place),
        may_run=await authorize.may(tx, who, Verb.JOB_RUN, place),
        organization=await organization_name(tx, group),
    )


async def organization_name(tx: Tx, group: Group) -> str:
    found = await organization_store.find(tx, group.organization_id)
    return found.name if found is not None else ""


async def read(
    tx: Tx, who: Principal, keys: Keyring, reference: str, groups_after: str, modules_after: str
) -> GroupPage:
    """Return a page of the groups, and a page of the modules, that are directly in a group."""
    head = await read_head(tx, who, reference)
    group = head.group
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    children = await reads.children(tx, seen, group, groups_after, PAGE_ROWS + 1)
    module_ids = await module_reads.in_group(tx, seen, group, modules_after, PAGE_ROWS + 1)
    shown = await modules.read_rows(tx, who, module_ids[:PAGE_ROWS])
    scope = runner_reads.RunnerScope(group.organization_id, group.id, group.path)
    visible_runners = await authorize.visible(tx, who, Verb.RUNNER_READ)
    runner_ids = await runner_reads.by_path(tx, visible_runners, scope, None, patterns(""), 0, MAX_RUNNERS + 1)
    is_whole = seen.covers(service.place(group))
    return GroupPage(
        head,
        await _rows(tx, seen, children[:PAGE_ROWS]),
        shown,
        await view_reads.views_of(tx, runner_ids[:MAX_RUNNERS]),
        {name: inheritance.effective_rule(head.lineage, name) for name in inheritance.DEFAULTS},
        await module_reads.count_below(tx, group, render.MAX_COUNTED + 1) if is_whole else None,
        await inputs.panel(tx, who, keys, places.of_group(group)) if is_whole else None,
        await steps.panel(tx, who, places.of_group(group)) if is_whole else None,
        await schedules.panel(tx, who, places.of_group(group)) if is_whole else None,
        await discovery.panel(tx, who, group) if is_whole else None,
        await registry.panel(tx, who, group) if is_whole else None,
        await policies.of_group(tx, who, group) if is_whole else None,
        await notifications.panel(tx, who, places.of_group(group)) if is_whole else None,
        await forges.panel(tx, who, places.of_group(group)) if is_whole else None,
        await _run(tx, group) if is_whole else None,
        groups_after,
        children[PAGE_ROWS - 1].name if len(children) > PAGE_ROWS else "",
        modules_after,
        shown[-1].name if len(module_ids) > PAGE_ROWS and shown else "",
        has_more_runners=len(runner_ids) > MAX_RUNNERS,
    )


async def _run(tx: Tx, group: Group) -> RunPanel | None:
    found = await group_runs.newest(tx, group)
    if found is None:
        return None
    run, members = found
    left = [each for each in members if each.status != "SUCCEEDED"]
    shown = left[:MAX_RUN_MODULES]
    statuses = await group_runs.job_statuses(tx, shown)
    lines = [(each, statuses.get(each.job_id or "")) for each in shown]
    return RunPanel(run, len(members) - len(left), len(members), lines)


async def _rows(tx: Tx, seen: authorize.Visible, groups: list[Group]) -> list[GroupRow]:
    whole = [group.id for group in groups if seen.covers(service.place(group))]
    counts = await reads.contents(tx, whole)
    return [
        GroupRow(group, counts[group.id]["groups"], counts[group.id]["modules"])
        if group.id in counts
        else GroupRow(group)
        for group in groups
    ]
