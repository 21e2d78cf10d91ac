"""A server process from its start to its end: what it opens, the loops beside the requests, and the built-in runner."""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import click

from terracrew.runner.departure import Stop
from terracrew.server import app
from terracrew.server.cloud_hosted.scaling import Scaling
from terracrew.server.context import Server
from terracrew.server.dashboard import render
from terracrew.server.db import kept
from terracrew.server.discovery.loop import Discovery
from terracrew.server.drift.loop import DriftChecks
from terracrew.server.fleet_jobs.loop import FleetJobs
from terracrew.server.forges import hooks
from terracrew.server.forges.deliveries import ForgeDeliveries
from terracrew.server.forges.polling import ForgePolling
from terracrew.server.forges.watching import RepositoryWatch
from terracrew.server.group_runs.loop import GroupRuns
from terracrew.server.hub.notify import HubNotifier
from terracrew.server.hub.presence import Presence
from terracrew.server.identity.access.roles import RoleExpiry
from terracrew.server.identity.keys.rotation import Rotation
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.sso.refresh import SignOnRefresh
from terracrew.server.jobs.lost_resources.search import LostResourceSearch
from terracrew.server.jobs.reaper import Reaper
from terracrew.server.jobs.set_back import loop as set_back
from terracrew.server.jobs.set_back.loop import HistoryLoop
from terracrew.server.jobs.triggers import Triggers
from terracrew.server.logs.mover import Mover
from terracrew.server.maintenance import backup, local_token, object_store
from terracrew.server.maintenance.local_token import first_start
from terracrew.server.membership import Membership
from terracrew.server.metrics.process import watch_loop_lag
from terracrew.server.notifications.sending import Sending
from terracrew.server.objects import open_objects
from terracrew.server.overview.loop import FigureFolding
from terracrew.server.process import builtin, diagnostics, handover, serve, shared_runners
from terracrew.server.process.reload import SettingsReload
from terracrew.server.process.waiting import until_answering
from terracrew.server.pull_requests import store as pull_request_store
from terracrew.server.pull_requests.loop import PullRequests
from terracrew.server.registry import reads as registry_reads
from terracrew.server.registry import tags as registry_tags
from terracrew.server.registry.tag_loop import TagLoop
from terracrew.server.rekey.service import Rekey
from terracrew.server.retention import kept_plans
from terracrew.server.retention.leftovers import Leftovers
from terracrew.server.retention.loop import Deletions, Retention
from terracrew.server.rollouts.loop import Rollouts
from terracrew.server.runners import reads as runner_reads
from terracrew.server.runners.outages.watching import Outages
from terracrew.server.runners.removal.service import Removals
from terracrew.server.runs.plan_verdicts import PlanVerdicts
from terracrew.server.schedules.loop import Schedules
from terracrew.server.scheduling import crews
from terracrew.server.supervise import supervise
from terracrew.server.terminals.adopting import Adoption
from terracrew.server.uploads import service as uploads
from terracrew.settings.server import ServerSettings
from terracrew.system import durable, procfs

SWITCH_INTERVAL_SECONDS = 0.0005
"""The event loop gives up the interpreter's lock at every system call, and a thread that renders a page or reads a list keeps it
for this long before the loop gets it back. The interpreter's default, 5 ms, would be paid several times by each dispatch."""


def run(
    settings: ServerSettings,
    *,
    with_builtin_runner: bool | None,
    is_held: bool = False,
    reread: Callable[[], ServerSettings] | None = None,
) -> Callable[[], None] | None:
    """Serve until a signal stops the process; executors continue. None: the built-in runners of the settings file run.

    `is_held`: hand out nothing that changes something until a person releases it.
    Returns what executes the command again, with the same listening socket, if the signal asked for a restart.
    """
    procfs.forbid_inspection()
    diagnostics.configure()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    kept = serve.run(run_until_stopped(settings, with_builtin_runner, is_held, reread or (lambda: settings)))
    return None if kept is None else partial(handover.execute_again, kept)


async def run_until_stopped(
    given: ServerSettings, with_builtin_runner: bool | None, is_held: bool, reread: Callable[[], ServerSettings]
) -> "serve.socket.socket | None":
    listener, settings = handover.open_listener(given)
    kept = listener.dup()  # the web server closes the others at its end
    is_restart = False
    try:
        is_restart = await _run(listener, settings, given, with_builtin_runner, is_held, reread)
    finally:
        if not is_restart:
            kept.close()
    return kept if is_restart else None


async def _run(
    listener: "serve.socket.socket",
    settings: ServerSettings,
    given: ServerSettings,
    with_builtin_runner: bool | None,
    is_held: bool,
    reread: Callable[[], ServerSettings],
) -> bool:
    """Open everything, serve until the end, and return whether the server is to begin again."""
    await until_answering(listener, lambda: _try_out_objects(settings))
    server = await until_answering(listener, lambda: _build(settings))
    try:
        runners, link = await prepare(server, listener, with_builtin_runner=with_builtin_runner, is_held=is_held)
        reload = SettingsReload(server, reread, given)
        with serve.stopped_by_signals(server.closing, reload.request, reload.request_restart):
            await _serve(server, listener, runners, link, reload)
        if server.closing.error is not None:
            raise server.closing.error
    finally:
        await server.tasks.stop()
        await app.close(server)
    return server.closing.is_restart


async def prepare(
    server: Server, listener: "serve.socket.socket", *, with_builtin_runner: bool | None, is_held: bool = False
) -> tuple[list[builtin.LocalRunner], str | None]:
    """Write what each start writes, and return the built-in runners and a login link. Each part waits if the database goes away."""
    settings = server.settings
    reason = "it was started with --hold" if is_held else backup.restored_from(settings.directory)
    await until_answering(listener, lambda: set_back.at_start(server.db, server.history, reason))
    backup.forget_manifest(settings.directory)
    link = await until_answering(listener, lambda: first_start(server.db, settings.organization))
    if server.db.kind == "sqlite":
        link = link or await identity.renew_first_link(server.db)
        await local_token.renew(server)
    runners = await until_answering(listener, lambda: shared_runners.declare(server, with_built_in=with_builtin_runner))
    return runners, link


async def _try_out_objects(settings: ServerSettings) -> None:
    """Check that the object store works. It is not tried out again while the server waits for the database."""
    durable.make_directory(settings.directory)  # before a folder in it, so that nobody else may read it
    await open_objects(settings.objects).try_out()


async def _build(settings: ServerSettings) -> Server:
    """Open everything, and check that the object store is that of the database."""
    server = await app.build(settings)
    try:
        await object_store.require(server.db, server.objects, settings, server.id)
    except BaseException:
        await app.close(server)
        raise
    return server


async def _serve(
    server: Server,
    listener: "serve.socket.socket",
    runners: list[builtin.LocalRunner],
    link: str | None,
    reload: SettingsReload,
) -> None:
    is_declaring = server.settings.shared_runners is not None
    facts = app.cloud_facts(server.settings)
    scaling = Scaling(server.db, server.scheduler, server.fleet, facts, server.tasks)
    loops: dict[str, Callable[[], Awaitable[None]]] = {
        "scheduler": server.scheduler.run,
        "reaper": Reaper(server.db, server.registry, timedelta(seconds=server.settings.apply_lease_seconds)).run,
        "schedules": Schedules(server.db, server.sources).run,
        "drift checks": DriftChecks(
            server.db,
            server.objects,
            server.keys,
            server.settings.local_roots,
            server.quotas,
            server.settings.drift_slots_percent,
        ).run,
        "sources of prompts": Adoption(server.db, server.keys).run,
        "triggers": Triggers(server.db, server.keys, server.settings.local_roots).run,
        "forge deliveries": ForgeDeliveries(server.db, server.forges, registry_tags.pushed).run,
        "forge polling": ForgePolling(
            server.db,
            server.forges,
            server.id,
            server.settings.forge_poll_seconds,
            server.settings.url + hooks.PATH,
        ).run,
        "forge repositories": RepositoryWatch(server.db, registry_reads.watched_sources).run,
        "pull requests": PullRequests(server.pull_requests).run,
        "discovery": Discovery(server.discovery).run,
        "plan verdicts": PlanVerdicts(server.db, server.policy_checks, pull_request_store.show_plan_again).run,
        "registry tags": TagLoop(server.registry_tags).run,
        "group runs": GroupRuns(server.db, server.keys, server.settings.local_roots).run,
        "cloud-hosted runners": scaling.run,
        "fleet process": lambda: server.fleet.stay_ready(lambda: scaling.has_any),
        "fleet jobs": FleetJobs(server.db, server.id, server.fleet, server.fleet_handlers).run,
        **({} if server.db.kind == "sqlite" else {"membership": Membership(server.db, server.id, server.closing).run}),
        "roll-outs": Rollouts(server.db, server.rollout_rules).run,
        "lost resources": LostResourceSearch(server.db, server.objects, server.keys).run,
        "heartbeats": server.heartbeats.run,
        "history": HistoryLoop(server.db, server.history).run,
        "notify": HubNotifier(server.hub.runners).run,
        "presence": Presence(server.hub.runners).run,
        "notifications": Sending(server.db, server.keys, server.senders, server.settings.url).run,
        "removals": Removals(server.db).run,
        "runner outages": Outages(server.db, server.settings.runner_offline_minutes * 60).run,
        **({"shared runners": lambda: shared_runners.watch(server)} if is_declaring else {}),
        "settings": reload.run,
        "failures": server.identity.failures.run,
        **({"local token": lambda: local_token.run(server)} if server.db.kind == "sqlite" else {}),
        "quotas": server.quotas.run,
        "revocations": server.identity.tokens.forget_revoked,
        "figures": FigureFolding(server.id, server.db).run,
        "leftovers": Leftovers(server.db, server.id, server.settings.leftovers_days).run,
        "object store": server.objects.watch,
        "rights": server.streams.watch_rights,
        "role expiry": RoleExpiry(server.db).run,
        "single sign-on": SignOnRefresh(server.db, server.keys, server.identity.sso.exchanges).run,
        "loop lag": watch_loop_lag,
        "plans": lambda: kept_plans.run(server.db, server.settings.retain_plans_days),
        "logs": Mover(
            server.db,
            server.objects,
            server.settings.uploads,
            server.id,
            server.settings.late_delivery_days * 86400,
        ).run,
        "deletions": Deletions(server.id, server.db, server.objects, server.settings).run,
        "rekey": Rekey(server.id, server.db, server.objects, server.keys).run,
        "signing keys": Rotation(server.db, server.identity.tokens.signing, server.id, server.identity.issuer).run,
        "retention": Retention(server.id, server.db, server.objects, server.settings).run,
        "kept answers": lambda: kept.renew_regularly(server.db, [crews.LARGE_CREWS, runner_reads.LARGE_COUNTS]),
        "uploads": lambda: uploads.sweep_regularly(server.db, server.objects),
    }
    started = asyncio.Event()
    stop = Stop()
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(supervise(name, loop, ready=server.db.ready), name=name) for name, loop in loops.items()
        ]
        web = tasks.create_task(serve.serve(server, listener, started))
        await _first(started, web)
        _settle_memory()
        server.tasks.start(render.compile_templates())  # an error is logged there; in the group it would end the server
        if runners:
            running.append(tasks.create_task(builtin.run(server, runners, stop, reload), name="runners"))
        _greet(server, link)
        await server.closing.wait()
        stop.exit_now()
        if runners:
            await asyncio.wait([running[-1]], timeout=5)
        await web
        for task in running:
            task.cancel()


def _settle_memory() -> None:
    """What the start has made lives as long as the process: the collector need not walk it again and again.

    To look at 10,000 new objects takes 2 ms, in which no thread runs. The collections of all objects stay rare.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 250)


async def _first(started: asyncio.Event, web: "asyncio.Task[None]") -> None:
    """Wait until it serves, or has failed to."""
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait([waiting, web], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _greet(server: Server, link: str | None) -> None:
    """Print the server's address and the login link of the first user to the terminal, never to a log."""
    click.echo(f"Terracrew is at {server.settings.url}/dashboard")
    if server.settings.is_reached_unencrypted:
        click.echo(
            "Passwords and tokens travel unencrypted to this address. Put a proxy with TLS in front of it, and set `public_url`."
        )
    if server.settings.issuer_url.startswith("http://"):
        click.echo(
            f"No cloud trusts the issuer {server.settings.issuer}: only addresses with https:// can be registered."
        )
    if link is not None:
        click.echo(
            f"Log in once by this link within an hour, and choose a password: {identity.link_url(server.settings.url, link)}"
        )
