"""Everything that a running server is made of. `app.build` makes it; each face gets only the context that it needs."""

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from terracrew import __version__
from terracrew.server.api.context import AccessContext, ApiContext, OperationsContext, RunsContext, TreeContext
from terracrew.server.api.metrics.exposition import Measured
from terracrew.server.api.metrics.gauges import Gauges
from terracrew.server.api.publishing import PublishingContext
from terracrew.server.cloud_hosted.starting import WakingAhead
from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.connections.registry import Registry
from terracrew.server.dashboard.context import DashboardContext
from terracrew.server.db.seam import Database
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.disk_reserve import DiskReserve
from terracrew.server.fleet_jobs.handlers import FleetHandlers
from terracrew.server.fleet_process.link import FleetLink
from terracrew.server.forges.applications import GitHubApplications
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.receiving import ForgeReceiver
from terracrew.server.forges.service import ForgeConnections
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.history.points import History
from terracrew.server.http.request import Counts
from terracrew.server.http.streams import Streams
from terracrew.server.hub.endpoint import HubContext
from terracrew.server.hub.executors.arrivals import arrivals
from terracrew.server.hub.executors.context import ExecutorContext
from terracrew.server.hub.runners import instances
from terracrew.server.hub.runners.claiming import Claiming
from terracrew.server.hub.runners.context import RunnerContext
from terracrew.server.hub.runners.grants import Grants
from terracrew.server.hub.runners.places import places
from terracrew.server.hub.transfer.context import TransferContext
from terracrew.server.identity.context import Identity
from terracrew.server.jobs.apply_plan import Apply
from terracrew.server.jobs.attempts.ingest import Ingest
from terracrew.server.jobs.attempts.policy_checks import PolicyChecks
from terracrew.server.jobs.create import Create
from terracrew.server.membership import Closing
from terracrew.server.notifications import mail
from terracrew.server.notifications.mail import Mailer
from terracrew.server.notifications.senders import Senders
from terracrew.server.notifications.service import Channels
from terracrew.server.objects import Objects
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.outgoing.destinations import Destinations
from terracrew.server.policies.opa import Opa
from terracrew.server.policies.service import Policies
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.readiness import Readiness
from terracrew.server.registry.publishing import PublishingTools
from terracrew.server.registry.tags import TagTools
from terracrew.server.retention.surveys import Surveys
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runs.follow import Watchers
from terracrew.server.runs.log_search import LogSearches
from terracrew.server.runs.policy_trials import PolicyTrials
from terracrew.server.runs.reasons import Watch
from terracrew.server.schedules.starting import Sources
from terracrew.server.scheduling.scheduler import Scheduler
from terracrew.server.scim.context import ScimContext
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state.diff_process import DiffProcess
from terracrew.server.supervise import Tasks
from terracrew.server.terminals.service import TerminalTools
from terracrew.server.terminals.state_bodies import StateBodies
from terracrew.server.terminals.transcript import Transcripts
from terracrew.server.tfe.context import TfeContext
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.uploads.service import Staging
from terracrew.settings.server import ServerSettings


@dataclass(frozen=True)
class Server:
    id: str
    settings: ServerSettings
    organization_id: str
    db: Database
    objects: Objects
    keys: Keyring
    identity: Identity
    registry: Registry
    scheduler: Scheduler
    ingest: Ingest
    create_job: Create
    apply_plan: Apply
    quotas: Quotas
    history: History
    heartbeats: Heartbeats
    claiming: Claiming
    grants: Grants
    watchers: Watchers
    streams: Streams
    tasks: Tasks
    fleet: FleetLink
    """The fleet process, which makes the calls to clouds. It is started when it is needed."""
    fleet_handlers: FleetHandlers
    """What the types of fleet jobs mean."""
    rollout_rules: RolloutRules
    counts: Counts = field(default_factory=Counts)
    diffs: DiffProcess = field(default_factory=DiffProcess)
    closing: Closing = field(default_factory=Closing)
    """Set when the server begins to stop. A stream that never ends by itself ends when it sees this."""

    @cached_property
    def watch(self) -> Watch:
        lease = timedelta(seconds=self.settings.apply_lease_seconds)
        return Watch(self.registry, lease, precedence=self.settings.precedence)

    @cached_property
    def waking_ahead(self) -> WakingAhead:
        return WakingAhead(self.db, self.tasks)

    @cached_property
    def outgoing(self) -> OutgoingClient:
        """What sends requests to addresses that people configured."""
        return OutgoingClient(Destinations.parse(self.settings.private_destinations))

    @cached_property
    def forges(self) -> Forges:
        return Forges(self.outgoing, self.keys)

    @cached_property
    def forge_connections(self) -> ForgeConnections:
        return ForgeConnections(self.db, self.forges, self.settings.url)

    @cached_property
    def mirrors(self) -> RepositoryMirrors:
        return RepositoryMirrors(self.settings.directory / "repositories", self.outgoing, disk=self.disk)

    @cached_property
    def discovery(self) -> DiscoveryTools:
        return DiscoveryTools(
            db=self.db,
            keys=self.keys,
            forges=self.forges,
            mirrors=self.mirrors,
            quotas=self.quotas,
            roots=self.settings.local_roots,
            server_id=self.id,
        )

    @cached_property
    def publishing(self) -> PublishingTools:
        return PublishingTools(self.db, self.objects)

    @cached_property
    def registry_tags(self) -> TagTools:
        return TagTools(self.db, self.forges, self.mirrors, self.staging, self.quotas, self.id)

    @cached_property
    def sources(self) -> Sources:
        return Sources(self.keys, self.settings.local_roots, self.quotas)

    @cached_property
    def pull_requests(self) -> PullRequestTools:
        return PullRequestTools(
            db=self.db,
            keys=self.keys,
            registry=self.registry,
            forges=self.forges,
            mirrors=self.mirrors,
            staging=self.staging,
            quotas=self.quotas,
            roots=self.settings.local_roots,
            url=self.settings.url,
            server_id=self.id,
        )

    @cached_property
    def senders(self) -> Senders:
        return Senders(self.outgoing, Mailer(mail.of_settings(self.settings)))

    @cached_property
    def channels(self) -> Channels:
        return Channels(self.db, self.keys, self.senders, self.settings.url)

    @cached_property
    def disk(self) -> DiskReserve:
        local = self.settings.local_objects
        folders = [self.settings.directory, *([local] if local else [])]
        return DiskReserve(folders, self.settings.disk_reserve_megabytes)

    @cached_property
    def staging(self) -> Staging:
        return Staging(self.db, self.objects, self.keys, self.disk)

    @cached_property
    def surveys(self) -> Surveys:
        return Surveys(self.db, self.objects, self.settings, self.tasks)

    @cached_property
    def api(self) -> ApiContext:
        operations = OperationsContext(
            db=self.db,
            keys=self.keys,
            surveys=self.surveys,
            disk=self.disk,
            readiness=Readiness(self.db, self.objects, self.closing),
            policies=self.policies,
            measured=Measured(
                self.db,
                self.objects,
                self.registry,
                self.counts,
                Gauges(self.db, self.registry, self.settings.precedence),
            ),
            publishing=PublishingContext(self.staging, self.settings.uploads, self.settings.release_key),
        )
        runs = RunsContext(
            db=self.db,
            objects=self.objects,
            keys=self.keys,
            diffs=self.diffs,
            registry=self.registry,
            create_job=self.create_job,
            apply_plan=self.apply_plan,
            watch=self.watch,
            watchers=self.watchers,
            log_searches=LogSearches(),
            streams=self.streams,
            fleet_handlers=self.fleet_handlers,
            sources=self.sources,
            pull_requests=self.pull_requests,
            waking_ahead=self.waking_ahead,
            closing=self.closing,
        )
        tree = TreeContext(
            cloud_calls=self.fleet,
            rollout_rules=self.rollout_rules,
            channels=self.channels,
            forges=self.forge_connections,
            discovery=self.discovery,
            publishing=self.publishing,
            policies=self.policies,
            trials=self.policy_trials,
            receiver=ForgeReceiver(self.db, self.forges),
            settings=self.settings,
            db=self.db,
            objects=self.objects,
            keys=self.keys,
            diffs=self.diffs,
            staging=self.staging,
            quotas=self.quotas,
        )
        return ApiContext(AccessContext(self.db, self.identity), operations, runs, tree)

    @cached_property
    def dashboard(self) -> DashboardContext:
        return DashboardContext(
            url=self.settings.url,
            release_key=self.settings.release_key,
            db=self.db,
            objects=self.objects,
            keys=self.keys,
            diffs=self.diffs,
            staging=self.staging,
            identity=self.identity,
            registry=self.registry,
            create_job=self.create_job,
            apply_plan=self.apply_plan,
            watch=self.watch,
            fleet_handlers=self.fleet_handlers,
            waking_ahead=self.waking_ahead,
            cloud_calls=self.fleet,
            tasks=self.tasks,
            cloud_runner_image=self.settings.cloud_runner_image,
            rollout_rules=self.rollout_rules,
            channels=self.channels,
            forges=self.forge_connections,
            applications=GitHubApplications(self.db, self.forges, self.keys, self.forge_connections),
            pull_requests=self.pull_requests,
            discovery=self.discovery,
            publishing=self.publishing,
            policies=self.policies,
            trials=self.policy_trials,
            local_roots=self.settings.local_roots,
            sources=self.sources,
            surveys=self.surveys,
        )

    @cached_property
    def hub(self) -> HubContext:
        runners = RunnerContext(
            server_id=self.id,
            db=self.db,
            registry=self.registry,
            history=self.history,
            tasks=self.tasks,
            closing=self.closing,
            identity=self.identity,
            scheduler=self.scheduler,
            grants=self.grants,
            heartbeats=self.heartbeats,
            places=places(self.db, self.id),
            session_row=instances.session_rows(self.db),
        )
        executors = ExecutorContext(
            server_id=self.id,
            db=self.db,
            registry=self.registry,
            history=self.history,
            tasks=self.tasks,
            closing=self.closing,
            objects=self.objects,
            disk=self.disk,
            keys=self.keys,
            ingest=self.ingest,
            watchers=self.watchers,
            arrivals=arrivals(self.db, self.keys),
            policies=self.policy_checks,
        )
        return HubContext(runners, executors)

    @cached_property
    def opa(self) -> Opa:
        return Opa()

    @cached_property
    def policy_checks(self) -> PolicyChecks:
        return PolicyChecks(self.db, self.objects, self.keys, self.opa)

    @cached_property
    def policy_trials(self) -> PolicyTrials:
        return PolicyTrials(self.db, self.policy_checks, self.opa)

    @cached_property
    def policies(self) -> Policies:
        return Policies(self.db, self.opa)

    @cached_property
    def transfer(self) -> TransferContext:
        late_delivery = timedelta(days=self.settings.late_delivery_days)
        folder = self.settings.uploads
        return TransferContext(self.db, self.objects, self.keys, self.identity, self.staging, folder, late_delivery)

    @cached_property
    def scim(self) -> ScimContext:
        return ScimContext(self.db, self.settings.url.rstrip("/"))

    @cached_property
    def tfe(self) -> TfeContext:
        tools = TerminalTools(
            db=self.db,
            staging=self.staging,
            quotas=self.quotas,
            registry=self.registry,
            folder=self.settings.uploads,
            roots=self.settings.local_roots,
            create_job=self.create_job,
        )
        url = self.settings.url.rstrip("/")
        return TfeContext(
            db=self.db,
            objects=self.objects,
            keys=self.keys,
            watch=self.watch,
            staging=self.staging,
            tools=tools,
            bodies=StateBodies(self.staging, self.settings.uploads),
            transcripts=Transcripts(self.db, self.objects, self.watch, url),
            diffs=self.diffs,
            url=url,
            version=__version__,
        )
