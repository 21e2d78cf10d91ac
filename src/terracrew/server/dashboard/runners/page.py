"""The page of one runner."""

from typing import Any, Literal

import msgspec
from litestar import Response, get
from litestar.params import FromPath

from terracrew.api.deployments import DeploymentView
from terracrew.api.runners import HEARTBEAT_SECONDS, Instance, Runner, RunnerAlert, RunnerStatus, RunnerView
from terracrew.errors import NotFound
from terracrew.server.cloud_hosted import deploying
from terracrew.server.dashboard import badges, render, words
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.jobs import rows as job_rows
from terracrew.server.dashboard.jobs.rows import JobRow
from terracrew.server.dashboard.releases import rollout
from terracrew.server.dashboard.runners import cloud
from terracrew.server.dashboard.runners.cloud import CloudState
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_reads
from terracrew.server.jobs import runner_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules as release_rules
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runners import reads, service, view_reads
from terracrew.server.runners.removal import remaining
from terracrew.server.runs.reasons import Watch
from terracrew.server.tree.groups import reads as group_reads
from terracrew.server.tree.groups import tree_path
from terracrew.server.tree.modules import reads as module_reads
from terracrew.server.tree.modules.reads import ModuleScope
from terracrew.wording.update_words import ByHand

HERE = "/dashboard/runners"
MAX_JOBS = 20
"""How many current jobs and how many waiting jobs are shown."""
MAX_PLACES = 50
"""How many assignments are shown."""
MAX_CHOICES = 300
"""How many service accounts and groups the forms offer."""
MAX_NEARER_NAMED = 2
"""How many places with nearer runners are named beside an assignment."""
MAX_MODULES = 50
"""How many modules the form that assigns the runner offers."""
Layer = Literal["dashboard", "default", "instance", "own"]
"""Where a value comes from: set here, the server's default, reported by an instance, or the runner's own settings, whose value
the server does not know."""


class PlaceRow(msgspec.Struct, frozen=True):
    """A place of the tree that may use the runner, and who comes before the runner there."""

    place_id: str
    kind: str
    path: str
    companions: int
    """How many other runners are assigned to the same place."""
    nearer: list[str]
    """The paths of up to three places below it that have other runners, which come first there."""

    @property
    def rank(self) -> str:
        """Return what the assignment covers, and which other runners share its jobs or come before it, in words."""
        text = "the module itself" if self.kind == "module" else "all modules in and below it"
        if self.companions:
            text += f", with {words.counted(self.companions, 'other runner')}"
        if len(self.nearer) > MAX_NEARER_NAMED:
            return f"{text}; in several places below it, runners assigned there come first"
        if self.nearer:
            return f"{text}; in {' and '.join(self.nearer)}, runners assigned there come first"
        return f"{text}; first choice"


class AccountChoice(msgspec.Struct, frozen=True):
    """A service account that may serve the runner."""

    id: str
    path: str


class SettingRow(msgspec.Struct, frozen=True):
    name: str
    """The name that the reference of the settings uses."""
    value: str
    """Empty if the server does not know it."""
    layer: Layer


class RunnerPage(msgspec.Struct, frozen=True):
    runner: RunnerView
    may_change: bool
    jobs: list[JobRow]
    """Its current jobs that the reader may see."""
    waiting: list[JobRow]
    """The first queued jobs that it may take and that the reader may see."""
    has_more_waiting: bool
    places: list[PlaceRow]
    place_count: int
    settings: list[SettingRow]
    delivering: int = 0
    """How many lost attempts are in contact again and still deliver; known while it drains."""
    account: str = ""
    """The path of its service account, or the id if the reader may not see the account; empty if it has none."""
    accounts: list[AccountChoice] = []
    """The service accounts that the reader may bind to it."""
    alerts: list[RunnerAlert] = []
    """The alerts that nobody has acknowledged; only for readers who may change the runner."""
    offered: list[str] = []
    """The paths of the first groups and modules that it can be assigned to."""
    cloud: CloudState | None = None
    """What is known of a cloud-hosted one beside its record."""
    deployment: DeploymentView | None = None
    by_hand: ByHand | None = None
    """How a person updates it, if it is outdated and the server cannot; only for readers who may change the runner."""

    @property
    def badge(self) -> Badge:
        return self.cloud.badge(self.runner.status) if self.cloud else badges.runner_badge(self.runner.status)

    @property
    def can_wake(self) -> bool:
        return self.cloud is not None and self.runner.status is RunnerStatus.ASLEEP and not self.cloud.refusal

    @property
    def connected(self) -> list[Instance]:
        return [each for each in self.runner.instances if each.is_connected]

    @property
    def away(self) -> list[Instance]:
        """Return the instances that are not connected although jobs still run on them."""
        return [each for each in self.runner.instances if not each.is_connected and each.jobs]

    @property
    def leaving(self) -> list[Instance]:
        """Return the connected instances whose end is announced."""
        return [each for each in self.connected if each.drain_reason]

    @property
    def versions(self) -> list[str]:
        """Return the versions of its connected instances, or the last known one."""
        found = sorted({each.version for each in self.connected}, reverse=True)
        return found or ([self.runner.version] if self.runner.version else [])

    def is_behind(self, instance: Instance) -> bool:
        """Return whether an instance has a lower version than the latest release."""
        return release_rules.is_outdated(instance.version, self.runner.latest_version or "")

    @property
    def has_credential(self) -> bool:
        """Return whether a process can connect as this runner. The server itself is the process of a shared runner."""
        return self.runner.has_worker_token or self.runner.service_account_id is not None

    @property
    def is_alarming(self) -> bool:
        """Return whether an alert stays until somebody acknowledges it."""
        return any(each.is_urgent for each in self.alerts)

    @property
    def is_offline(self) -> bool:
        """Return whether it is away although it should be there. A cloud-hosted one says itself why it is not."""
        return self.runner.status is RunnerStatus.OFFLINE and self.cloud is None


async def read(tx: Tx, who: Principal, reference: str, watch: Watch, rules: RolloutRules) -> RunnerPage:
    record = await service.find(tx, who, reference, Verb.RUNNER_READ)
    runner = await view_reads.view(tx, record)
    may_change = await authorize.may(tx, who, Verb.RUNNER_WRITE, service.place(runner))
    seen, organization_id = await authorize.visible(tx, who, Verb.JOB_READ), who.organization_id or ""
    active = await runner_reads.active(tx, organization_id, seen, runner.id, MAX_JOBS)
    waiting = await runner_reads.waiting(tx, organization_id, seen, runner.id, MAX_JOBS + 1)
    jobs = {row.id: row for row in await job_rows.read_these(tx, [*active, *waiting[:MAX_JOBS]], watch)}
    accounts = await _accounts(tx, who, runner)
    state = (await cloud.states(tx, [runner])).get(runner.id)
    return RunnerPage(
        runner=runner,
        may_change=may_change,
        jobs=[jobs[each] for each in active if each in jobs],
        waiting=[jobs[each] for each in waiting[:MAX_JOBS] if each in jobs],
        has_more_waiting=len(waiting) > MAX_JOBS,
        places=[msgspec.convert(row, PlaceRow) for row in await reads.first(tx, runner.id, MAX_PLACES)],
        place_count=await reads.count(tx, runner.id),
        settings=rows(runner),
        delivering=(await remaining.of(tx, who, record)).delivering if runner.is_draining else 0,
        account=next((each.path for each in accounts if each.id == runner.service_account_id), "")
        or (runner.service_account_id or ""),
        accounts=accounts if may_change else [],
        alerts=(await service.open_alerts(tx, who, runner.id)).items if may_change else [],
        offered=await offered(tx, who, record) if may_change else [],
        cloud=state,
        deployment=await deploying.show(tx, who, runner.id) if state else None,
        by_hand=await rollout.by_hand(tx, rules, record) if may_change and runner.is_outdated else None,
    )


async def _accounts(tx: Tx, who: Principal, runner: RunnerView) -> list[AccountChoice]:
    """Return the service accounts of the runner's group and of the groups above it that the reader may see."""
    if runner.organization_id is None:
        return []
    seen = await authorize.visible(tx, who, Verb.ACCESS_READ)
    if seen.is_nothing:
        return []
    rows = await role_reads.above(tx, runner.organization_id, runner.group or "", MAX_CHOICES)
    return [
        AccountChoice(row["id"], tree_path.join(row["group_path"], row["name"]))
        for row in rows
        if seen.covers(authorize.group(runner.organization_id, row["group_path"]))
    ]


async def offered(tx: Tx, who: Principal, runner: Runner, typed: str = "") -> list[str]:
    """Return the paths of the first groups and modules in the runner's group that the reader may see and that contain what was
    typed."""
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    organization_id = runner.organization_id or who.organization_id or ""
    if runner.group and runner.group_id:
        within = ModuleScope(organization_id, runner.group_id, runner.group)
        groups = await group_reads.paths_below(tx, seen, organization_id, runner.group_id, runner.group, MAX_CHOICES)
    else:
        within = ModuleScope(organization_id)
        groups = await group_reads.paths(tx, organization_id, seen, MAX_CHOICES)
    found = await module_reads.search(tx, seen, within, typed, "", MAX_MODULES, only_paths=True)
    modules = await module_reads.paths(tx, found)
    return [path for path in [*groups, *modules] if path and typed.strip().lower() in path.lower()]


def rows(runner: RunnerView) -> list[SettingRow]:
    """Return the settings that the server knows or could override, in a fixed order."""
    found = runner.configuration
    here = [each for each in runner.instances if each.is_connected]
    heartbeat = SettingRow("heartbeat_seconds", f"{HEARTBEAT_SECONDS:g}", "default")
    if found.heartbeat_seconds is not None:
        heartbeat = SettingRow("heartbeat_seconds", f"{found.heartbeat_seconds:g}", "dashboard")
    levels = [SettingRow(f"logging.log_level.{name}", level, "dashboard") for name, level in found.log_level.items()]
    return [
        heartbeat,
        *(levels or [SettingRow("logging.log_level", "", "own")]),
        _number("job_log_stream.batch_size_limit", found.batch_size_limit),
        _number("job_log_stream.period_seconds", found.period_seconds),
        *_reported("runner.capacity", here, {each.name: str(each.capacity) for each in here}),
        *_reported("executor.isolation", here, {each.name: each.isolation for each in here if each.isolation}),
    ]


def _number(name: str, value: float | None) -> SettingRow:
    return SettingRow(name, "", "own") if value is None else SettingRow(name, f"{value:g}", "dashboard")


def _reported(name: str, here: list[Instance], values: dict[str, str]) -> list[SettingRow]:
    """Return what the connected instances reported: one value if they agree, otherwise each with the name of its instance."""
    if not values:
        return []
    if len(set(values.values())) == 1 and len(values) == len(here):
        return [SettingRow(name, next(iter(values.values())), "instance")]
    return [SettingRow(name, ", ".join(f"{value} ({instance})" for instance, value in values.items()), "instance")]


def address(runner_id: str) -> str:
    """Return the address of the runner's page."""
    return f"{HERE}/{runner_id}"


@get("/{runner:str}")
async def runner_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    try:
        found = await request.read(read, runner, request.watch, request.context.rollout_rules)
    except NotFound:
        if not render.is_fragment(request):
            raise
        return await render.template(request, "runners/gone.html")
    return await render.page(request, "runners/runner", page=found)
