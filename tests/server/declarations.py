"""Declares shared runners as a server does at its start."""

from collections.abc import Sequence
from datetime import UTC, datetime

from terracrew.api.runners import Runner
from terracrew.server.db.seam import Database, Tx
from terracrew.server.runners.shared import declaration, declaring
from terracrew.server.runners.shared.declaration import Declaration, DeclaredRunner
from terracrew.server.runners.shared.declaring import Changes
from terracrew.server.secrets import credentials

FILE = "/etc/terracrew/server.toml"


def remote(name: str, token: credentials.Secret, **fields: object) -> DeclaredRunner:
    given = {"max_jobs": 100, **fields}
    return DeclaredRunner(name=name, kind="remote", worker_token_sha256=token.sha256, **given)  # pyright: ignore[reportArgumentType]


async def declare(db: Database, declared: Sequence[DeclaredRunner], *, file: str = FILE, host: str = "one") -> Changes:
    async def work(tx: Tx) -> Changes:
        made = Declaration(
            digest=declaration.digest(declared),
            file=file,
            host=host,
            server_id="srv_1",
            declared_at=datetime.fromtimestamp(tx.now, UTC),
        )
        return await declaring.declare(tx, declared, made, lambda name: credentials.digest(f"built in {name}"))

    return await db.write(work)


async def declared_runner(db: Database, name: str, max_jobs: int = 4) -> tuple[Runner, str]:
    """Return a shared runner that is the only one of the declaration, with its worker token."""
    token = credentials.new("tcw")
    await declare(db, [remote(name, token, max_jobs=max_jobs)])
    found = await db.read(lambda tx: declaring.find(tx, name))
    assert found is not None
    return found, token.text
