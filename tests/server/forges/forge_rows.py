"""Makes rows of connections, repositories and pull requests, and answers of forges about them."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from terracrew import ids
from terracrew.forges.model import Comment, PullRequest
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import repository_store, sealing, store
from terracrew.server.forges.model import ForgeConnection, ForgeCredential, ForgeRepository
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups.service import ensure_organization
from terracrew.server.tree.groups.store import at

HOOK_SECRET = "hush"
SINCE = datetime(2026, 11, 19, 12, tzinfo=UTC)


def pull_request(number: int = 1, **facts: Any) -> PullRequest:
    """The facts of an open pull request, as a forge tells them."""
    usual: dict[str, Any] = {
        "title": f"Change {number}",
        "url": f"https://forge.example.com/acme/network/pulls/{number}",
        "state": "open",
        "author": "ada",
        "author_id": "7",
        "head_commit": f"{number:040x}",
        "head_branch": f"change-{number}",
        "base_branch": "main",
        "head_ref": f"refs/pull/{number}/head",
        "updated_at": SINCE,
    }
    return PullRequest(number=number, **usual | facts)


def comment(identity: str = "1", body: str = "terracrew plan", **facts: Any) -> Comment:
    usual: dict[str, Any] = {"number": 1, "author": "ada", "author_id": "7", "url": "https://forge.example.com/1"}
    return Comment(id=identity, body=body, created_at=SINCE, **usual | facts)


async def connection(
    db: Database, keys: Keyring | None = None, token: str = "t0ken", organization_name: str = "default", **values: Any
) -> ForgeConnection:
    """A connection of an organization. Its credential is stored only where there are keys to encrypt it."""
    connection_id = ids.new("fcn")
    credential = ForgeCredential(token=token, hook_secret=HOOK_SECRET)
    sealed = b"sealed" if keys is None else sealing.seal(keys, connection_id, credential)

    async def work(tx: Tx) -> ForgeConnection:
        organization = await ensure_organization(tx, organization_name)
        root = await at(tx, organization.id, "")
        assert root is not None
        usual: dict[str, Any] = {
            "group_id": root.id,
            "group": "",
            "name": "forge",
            "description": "",
            "kind": "gitea",
            "base_url": "https://forge.example.com",
            "owner": "",
            "app_id": "",
            "username": "",
            "makes_hooks": True,
            "merges": True,
            "sealed": sealed,
            "credential_version": 1,
            "created_by": "usr_1",
            "created_at": tx.moment,
        }
        made = ForgeConnection(id=connection_id, organization_id=organization.id, **usual | values)
        await store.insert(tx, made)
        return made

    return await db.write(work)


async def repository(
    db: Database, parent: ForgeConnection | None = None, name: str = "acme/network"
) -> ForgeRepository:
    """A repository that a connection watches because somebody has added it."""
    of = parent or await connection(db)

    async def work(tx: Tx) -> ForgeRepository:
        await repository_store.watch(tx, of.id, [name], is_added=True)
        found = await repository_store.named(tx, of.id, name)
        assert found is not None
        return found

    return await db.write(work)


async def replace_token(tx: Tx, keys: Keyring, before: ForgeConnection, token: str) -> None:
    """Give a connection another token."""
    sealed = sealing.seal(keys, before.id, ForgeCredential(token=token, hook_secret=HOOK_SECRET))
    version = before.credential_version + 1
    await store.save(
        tx, before, msgspec.structs.replace(before, sealed=sealed, credential_version=version, away_until=None)
    )
    await repository_store.poll_now(tx, before.id)
