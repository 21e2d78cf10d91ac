"""A server process from its start to its end: what it opens, the loops beside the requests, and the built-in runner."""

import asyncio
import gc
import logging
import os
from collections.abc import Awaitable, Callable

import click
import msgspec
import structlog

from terracrew.runner import main as runner_process
from terracrew.runner.config import RunnerConfig
from terracrew.runner.stop import Stop
from terracrew.server import app, serve
from terracrew.server.context import Server
from terracrew.server.db.seam import Tx
from terracrew.server.hub.messenger import Messenger
from terracrew.server.identity import service as identity
from terracrew.server.identity import store as people
from terracrew.server.identity.expiry import Expiry
from terracrew.server.identity.sessions import person
from terracrew.server.jobs.reaper import Reaper
from terracrew.server.runners import service as runners
from terracrew.server.settings import ServerSettings
from terracrew.server.supervise import supervise

BUILT_IN = "built-in"
BUILT_IN_SLOTS = max(4, os.cpu_count() or 4)
ADMIN_TOKEN = "admin.token"  # noqa: S105 - the name of the file
log = structlog.get_logger("terracrew.server")


def run(settings: ServerSettings, *, with_builtin_runner: bool) -> None:
    """Serve until a signal says stop; what runs on executors goes on."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    serve.run(_run(settings, with_builtin_runner))


async def _run(settings: ServerSettings, with_builtin_runner: bool) -> None:
    listener = serve.bind(settings)
    settings = msgspec.structs.replace(settings, port=listener.getsockname()[1])
    server = await app.build(settings)
    try:
        await server.db.write(lambda tx: _nobody_is_connected(tx, is_alone=server.db.kind == "sqlite"))
        link = await identity.first_start(server.db, settings.organization)
        if server.db.kind == "sqlite":
            await _leave_token(server)
        with serve.stopped_by_signals(server.closing):
            await _serve(server, listener, with_builtin_runner, link)
    finally:
        await server.tasks.stop()
        await app.close(server)


async def _serve(server: Server, listener: "serve.socket.socket", with_builtin_runner: bool, link: str | None) -> None:
    loops: dict[str, Callable[[], Awaitable[None]]] = {
        "scheduler": server.scheduler.run,
        "reaper": Reaper(server.db, server.registry).run,
        "heartbeats": server.heartbeats.run,
        "messenger": Messenger(server).run,
        "revocations": server.identity.tokens.forget_revoked,
        "expiry": Expiry(server.db, server.id).run,
        "rights": server.streams.watch_rights,
    }
    started = asyncio.Event()
    stop = Stop()
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(supervise(name, loop), name=name) for name, loop in loops.items()]
        web = tasks.create_task(serve.serve(server, listener, started))
        await _first(started, web)
        _settle_memory()
        if with_builtin_runner:
            running.append(tasks.create_task(_built_in(server, stop), name="runner"))
        _greet(server, link)
        await server.closing.wait()
        stop.leave_now()
        if with_builtin_runner:
            await asyncio.wait([running[-1]], timeout=5)
        await web
        for task in running:
            task.cancel()


def _settle_memory() -> None:
    """What the start has made lives as long as the process: the collector need not walk it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def _first(started: asyncio.Event, web: "asyncio.Task[None]") -> None:
    """Wait until it serves, or has failed to."""
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait([waiting, web], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _nobody_is_connected(tx: Tx, *, is_alone: bool) -> None:
    """A server that has SQLite to itself knows, when it starts, that every connection of before is gone."""
    if is_alone:
        await tx.run("UPDATE instances SET is_connected = false, disconnected_at = :now WHERE is_connected", now=tx.now)


async def _built_in(server: Server, stop: Stop) -> None:
    """The shared runner of this process: it speaks the hub's protocol over loopback, like any other."""
    record, token = await server.db.write(lambda tx: runners.ensure_shared(tx, BUILT_IN, BUILT_IN_SLOTS))
    directory = server.settings.directory / "runner"
    config = RunnerConfig(
        server_url=f"http://127.0.0.1:{server.settings.port}",
        runner_id=record.id,
        instance="server",
        client_id=record.id,
        client_secret=token,
        working_directory=str(directory),
        temp_directory=str(directory / ".temp"),
        capacity=BUILT_IN_SLOTS,
        source_roots=[str(root.expanduser()) for root in server.settings.local_roots],
        is_built_in=True,
    )
    await supervise("runner", lambda: runner_process.run(config, stop), until=stop.leave)


async def _leave_token(server: Server) -> None:
    """An administrator's API token in the data directory, for the command line of whoever owns that directory."""
    file = server.settings.directory / ADMIN_TOKEN
    if os.path.exists(file):  # noqa: ASYNC240 - once, before anything is served
        return
    admin = await server.db.read(lambda tx: people.user(tx, identity.ADMINISTRATOR))
    _, secret = await identity.create_token(server.db, person(admin, None), f"{ADMIN_TOKEN} {server.id}", None)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(secret.text)


def _greet(server: Server, link: str | None) -> None:
    """Where it is, and how the first person gets in; to the terminal, never to a log."""
    click.echo(f"Terracrew is at {server.settings.url}/dashboard/runners")
    if link is not None:
        click.echo(f"Log in once by this link, and choose a password: {identity.link_url(server.settings.url, link)}")
