"""The composition root: builds everything that a server is made of, and the application that serves it."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

from litestar import Request, Router
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.types import ControllerRouterHandler, Message, Scope

from terracrew import __version__, ids
from terracrew.api.fleet_jobs import FleetJobType
from terracrew.clouds.model import CloudIdentity
from terracrew.logging import get_logger
from terracrew.server import membership
from terracrew.server.api import routes as api
from terracrew.server.cloud_hosted import describing
from terracrew.server.cloud_hosted.connection_tests import ConnectionTestHandler
from terracrew.server.cloud_hosted.deploy_jobs import DeployHandler
from terracrew.server.cloud_hosted.describing import ServerFacts
from terracrew.server.cloud_hosted.destroy_jobs import DestroyHandler
from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.connections.heartbeats import Heartbeats
from terracrew.server.connections.registry import Registry
from terracrew.server.context import Server
from terracrew.server.dashboard import routes as pages
from terracrew.server.dashboard.errors import from_unrouted
from terracrew.server.db import open_database
from terracrew.server.fleet_jobs.handlers import FleetHandlers, HandlersByPlace
from terracrew.server.fleet_process.link import FleetLink
from terracrew.server.history.points import FILE_NAME, History
from terracrew.server.http import policy, problem
from terracrew.server.http.authentication import AuthenticationMiddleware
from terracrew.server.http.request import App, Call, refuse_oversized, refuse_unknown
from terracrew.server.http.streams import Streams
from terracrew.server.hub import endpoint
from terracrew.server.hub.runners.claiming import Claiming
from terracrew.server.hub.runners.grants import Archives, Grants
from terracrew.server.hub.transfer import routes as transfer
from terracrew.server.identity.context import open_identity
from terracrew.server.identity.oidc.cloud import mint_for_identity
from terracrew.server.jobs.apply_plan import applier
from terracrew.server.jobs.attempts.claims import ClaimGroup, claims
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.jobs.create import creator
from terracrew.server.metrics import process as metrics
from terracrew.server.objects import open_objects
from terracrew.server.openapi.document import Document
from terracrew.server.rekey import key_holders
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.rollouts.updating import RunnerUpdaters
from terracrew.server.runner_updates.update_jobs import SelfUpdateHandler
from terracrew.server.runs.follow import Watchers
from terracrew.server.scheduling.new_job_claims import NewJobClaims
from terracrew.server.scheduling.scheduler import Scheduler
from terracrew.server.scim import routes as scim
from terracrew.server.secrets.keyring import Keyring, open_keyring
from terracrew.server.supervise import Tasks
from terracrew.server.tfe import routes as tfe
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.groups.service import ensure_organization
from terracrew.settings.server import ServerSettings
from terracrew.system import durable

log = get_logger("terracrew.server")
MAX_BODY_BYTES = 1024 * 1024
"""The largest body of a request whose handler sets no other limit."""

ROUTERS: list[ControllerRouterHandler] = [
    *api.ROUTERS,
    *pages.routers,
    *transfer.ROUTERS,
    *tfe.ROUTERS,
    *scim.ROUTERS,
]

_HANDLERS: dict[int | type[Exception], Any] = {**problem.HANDLERS, HTTPException: from_unrouted}
_HEADERS = [
    (policy.HEADER.encode(), policy.content_policy().encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
]
_HSTS_HEADER = (b"strict-transport-security", b"max-age=31536000")
"""Sent over https only: it tells browsers to use nothing else for a year."""


async def build(settings: ServerSettings, clock: Callable[[], float] | None = None) -> Server:
    """Open what a server needs. What stands in the way of that is told before anything is served."""
    durable.make_directory(settings.directory)
    shutil.rmtree(settings.uploads, ignore_errors=True)  # what an earlier process did not finish
    settings.uploads.mkdir(mode=0o700, parents=True)
    metrics.ensure_token(settings.directory)
    objects = open_objects(settings.objects)
    db = await open_database(settings.database, clock)
    server_id = ids.new("srv")
    try:
        await membership.join(db, server_id)
        keys = await open_keyring(db, settings.key, settings.master_key_file, settings.directory)
        await key_holders.require_key(db, keys)
        organization = await db.write(lambda tx: ensure_organization(tx, settings.organization))
        access = await open_identity(
            db,
            keys,
            settings.url,
            settings.federation_private_issuers,
            worker_token_seconds=settings.worker_token_seconds,
            issuer=settings.issuer,
        )
    except BaseException:
        await membership.leave(db, server_id)
        await db.close()
        raise
    registry, tasks = Registry(), Tasks()
    history = History(keys, settings.directory / FILE_NAME)
    grants = Grants(db, registry, Archives(objects), tasks)
    claiming = Claiming(db, registry, access.tokens, claims(db, keys, settings.precedence), grants, tasks)
    scheduler = Scheduler(db, registry, claiming.start, settings.precedence)
    ahead = NewJobClaims(scheduler, ClaimGroup(keys, settings.precedence), grants.send, grants.take_back)
    quotas = Quotas(db, settings)

    async def sign(cloud: CloudIdentity, is_probe: bool) -> str:
        return (await mint_for_identity(access.tokens.signing, cloud, is_probe=is_probe)).token

    fleet = FleetLink(sign, settings.private_paths)
    return Server(
        id=server_id,
        settings=settings,
        organization_id=organization.id,
        db=db,
        objects=objects,
        keys=keys,
        identity=access,
        registry=registry,
        scheduler=scheduler,
        ingest=ingest(
            db,
            keys,
            history,
            timedelta(days=settings.late_delivery_days),
            max_log_bytes=settings.max_log_megabytes_per_attempt * 1_000_000,
        ),
        create_job=creator(db, objects, keys, settings.local_roots, ahead, quotas),
        apply_plan=applier(db, registry, keys, settings.local_roots, quotas),
        quotas=quotas,
        history=history,
        heartbeats=Heartbeats(db, registry, server_id),
        claiming=claiming,
        grants=grants,
        watchers=Watchers(registry, objects),
        streams=Streams(db),
        tasks=tasks,
        fleet=fleet,
        fleet_handlers=fleet_handlers(settings, keys, fleet),
        rollout_rules=RolloutRules(
            updaters=RunnerUpdaters(settings.cloud_runner_image),
            server_version=__version__,
            updates_cloud_runners=settings.updates_cloud_runners,
        ),
    )


def cloud_facts(settings: ServerSettings) -> ServerFacts:
    """Return what clouds and the instances in them know of a server with these settings."""
    image = describing.of_version(settings.cloud_runner_image, __version__)
    return ServerFacts(settings.url, settings.issuer, __version__, image)


def fleet_handlers(settings: ServerSettings, keys: Keyring, calls: CloudCalls) -> FleetHandlers:
    """Return what the types of fleet jobs mean on a server with these settings."""
    facts = cloud_facts(settings)
    deploying = DeployHandler(facts, keys, calls)
    return {
        FleetJobType.CONNECTION_TEST: ConnectionTestHandler(settings),
        FleetJobType.DEPLOY_WORKER: deploying,
        FleetJobType.UPDATE_WORKER: HandlersByPlace(deploying, SelfUpdateHandler()),
        FleetJobType.DESTROY_WORKER: DestroyHandler(facts),
    }


async def close(server: Server) -> None:
    """Let go of everything, once nothing is being served any more."""
    server.closing.set()
    await server.fleet.close()
    server.outgoing.close()
    await membership.leave(server.db, server.id)
    await server.db.close()


def make_app(server: Server) -> App:
    """Make the application that answers for a server."""
    return attach(make_unattached_app(), server)


def attach(app: App, server: Server) -> App:
    """Let an application answer for this server and for no other one from now on."""
    contexts = {
        "identity": server.identity,
        "api": server.api,
        "dashboard": server.dashboard,
        "transfer": server.transfer,
        "tfe": server.tfe,
        "scim": server.scim,
        "data_directory": server.settings.directory,
    }
    app.state = State(contexts)
    hooks: list[Any] = [_hardener(server.settings.url), server.counts.count]
    app.before_send = hooks
    app.beside = {endpoint.PATH: partial(endpoint.runnerhub, server.hub, asyncio.Semaphore(endpoint.MAX_HELLOS))}
    return app


def make_unattached_app() -> App:
    """Make an application that has every route and no server yet. It takes a quarter of a second of processor time."""
    return App(
        ROUTERS,
        request_class=Call,
        middleware=[AuthenticationMiddleware()],
        exception_handlers=_HANDLERS,
        before_request=_check_request,
        request_max_body_size=MAX_BODY_BYTES,
        logging_config=None,
        openapi_config=OpenAPIConfig(
            title="Terracrew",
            version=__version__,
            path="/schema",
            render_plugins=[Document()],
            openapi_router=Router("/schema", route_handlers=[], opt={"public": True}, include_in_schema=False),
            use_handler_docstrings=True,
        ),
    )


async def _check_request(request: Request[Any, Any, Any]) -> None:
    await refuse_oversized(request)
    await refuse_unknown(request)


def _hardener(url: str) -> Callable[[Message, Scope], Awaitable[None]]:
    """Put the same headers on every answer, errors included, unless an answer has its own. Without one, no answer is kept by a cache."""

    async def harden(message: Message, scope: Scope) -> None:
        if message["type"] != "http.response.start":
            return
        headers = list(message["headers"])
        known = {name.lower() for name, _ in headers}
        if b"cache-control" not in known:
            headers.append((b"cache-control", b"no-store"))
        if url.startswith("https:") or scope["scheme"] == "https":
            headers.append(_HSTS_HEADER)
        message["headers"] = headers + [each for each in _HEADERS if each[0] not in known]

    return harden
