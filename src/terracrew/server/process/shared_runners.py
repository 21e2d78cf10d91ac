"""Applies the declaration of shared runners at the start of a server, and watches whether it stays in effect."""

import socket

from terracrew.logging import get_logger
from terracrew.server.context import Server
from terracrew.server.db.seam import Tx
from terracrew.server.process import builtin
from terracrew.server.process.builtin import LocalRunner
from terracrew.server.runners.shared import declaration, declaring
from terracrew.server.runners.shared.declaration import Declaration, DeclaredRunner
from terracrew.server.runners.shared.declaring import Changes
from terracrew.settings.shared_runners import BuiltInRunner

WATCH_SECONDS = 60.0
log = get_logger("terracrew.runners")


async def declare(server: Server, *, with_built_in: bool | None) -> list[LocalRunner]:
    """Apply this server's declaration, and return the built-in runners that it runs.

    `with_built_in` is what the command line says. None: those that the file declares run, and no other.
    """
    settings = server.settings
    if settings.shared_runners is None:
        found = [await _default(server)] if with_built_in else []
        await server.db.read(_note_undeclared)
    else:
        changes = await server.db.write(lambda tx: _declare(tx, server, _declared(server)))
        _log(changes, str(settings.file))
        found = [
            LocalRunner(name, each.slots or builtin.SLOTS, each)
            for name, each in sorted(settings.shared_runners.items())
            if isinstance(each, BuiltInRunner)
        ]
    return [] if with_built_in is False else [*found, *await server.db.read(lambda tx: _left_behind(tx, server, found))]


async def watch(server: Server) -> None:
    """Warn when another server has started with a different declaration, which is in effect from then on."""
    own, warned = declaration.digest(_declared(server)), ""
    with server.db.listen("runners") as wakeups:
        while True:
            found = await server.db.read(declaration.current)
            if found is not None and found.digest != own and found.digest != warned:
                log.warning(
                    "another server has replaced the shared runners that this server's file declares: start all servers with "
                    "the same shared_runners",
                    file=str(server.settings.file),
                    other_file=found.file,
                    other_host=found.host,
                )
            warned = "" if found is None or found.digest == own else found.digest
            await wakeups.get(timeout=WATCH_SECONDS)


async def _declare(tx: Tx, server: Server, declared: list[DeclaredRunner]) -> Changes:
    made = Declaration(
        digest=declaration.digest(declared),
        file=str(server.settings.file),
        host=socket.gethostname(),
        server_id=server.id,
        declared_at=tx.moment,
    )
    secret = await builtin.secret(tx, server.keys)
    return await declaring.declare(tx, declared, made, lambda name: builtin.token(secret, name).sha256)


async def _default(server: Server) -> LocalRunner:
    async def work(tx: Tx) -> None:
        token = builtin.token(await builtin.secret(tx, server.keys), declaring.BUILT_IN_NAME)
        await declaring.ensure_default(tx, builtin.SLOTS, token.sha256)

    await server.db.write(work)
    return LocalRunner(declaring.BUILT_IN_NAME, builtin.SLOTS)


async def _note_undeclared(tx: Tx) -> None:
    """Say that shared runners of a file stay, although this server has no such file."""
    if (found := await declaration.current(tx)) is not None:
        log.warning(
            "this server's settings have no shared_runners: those of another file stay in effect; an empty shared_runners "
            "retires them",
            file=found.file,
            host=found.host,
        )


async def _left_behind(tx: Tx, server: Server, found: list[LocalRunner]) -> list[LocalRunner]:
    """Return the retired runners that ran in this data directory: somebody must look after the attempts that they left."""
    names = {each.name for each in found}
    return [
        LocalRunner(each.name, each.max_jobs or builtin.SLOTS, is_left_behind=True)
        for each in await declaring.retired(tx)
        if each.name not in names and builtin.directory_of(server.settings.directory, each.name).is_dir()
    ]


def _declared(server: Server) -> list[DeclaredRunner]:
    return declaration.declared_runners(server.settings.shared_runners or {}, builtin.SLOTS)


def _log(changes: Changes, file: str) -> None:
    facts = {
        name: ", ".join(names)
        for name in ("created", "changed", "retired", "restored")
        if (names := getattr(changes, name))
    }
    if facts:
        log.info("the shared runners follow the settings file", file=file, **facts)
    if changes.before is not None and changes.before.file != file and facts:
        log.warning(
            "this declaration of shared runners replaces another one",
            other_file=changes.before.file,
            other_host=changes.before.host,
        )
