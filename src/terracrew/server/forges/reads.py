"""Reads which modules have git sources, which repositories are watched, and what people are shown of connections."""

from typing import LiteralString

import msgspec

from terracrew.protocol.spec import GitSource
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.forges import addresses, store
from terracrew.server.forges.fact_store import PULL_REQUESTS
from terracrew.server.forges.model import ForgeConnection, ForgePullRequest, ForgeRepository
from terracrew.server.forges.repository_store import REPOSITORIES
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

_IS_GIT: LiteralString = 'substr(modules.source, 1, 13) = \'{"kind":"git"\''
_MODULES: LiteralString = f"""SELECT modules.id, modules.path, modules.organization_id, groups.path AS "group", modules.source,
    modules.engine, modules.source_gone FROM modules JOIN groups ON groups.id = modules.group_id
WHERE {_IS_GIT} AND EXISTS (SELECT 1 FROM forge_connections WHERE forge_connections.organization_id = modules.organization_id)"""
_ONE_REPOSITORY: LiteralString = """ AND modules.organization_id = :organization_id
    AND lower(modules.source) LIKE CAST(:pattern AS text) ESCAPE '\\'
    AND modules.source LIKE CAST(:folder AS text) ESCAPE '\\' ORDER BY modules.path"""
_OF_READER: LiteralString = (
    visibility.SEEN_GROUPS
    + " "
    + store.SELECT
    + " JOIN seen_groups ON seen_groups.id = forge_connections.group_id WHERE forge_connections.id > :after"
    " ORDER BY forge_connections.id LIMIT :limit"
)
_OF_ORGANIZATION: LiteralString = (
    store.SELECT + " WHERE forge_connections.organization_id = :organization_id AND forge_connections.id > :after"
    " ORDER BY forge_connections.id LIMIT :limit"
)


class GitModule(msgspec.Struct, frozen=True):
    """A module with a git source."""

    id: str
    path: str
    organization_id: str
    group: str
    source: GitSource
    engine: str
    source_gone: str

    @property
    def folder(self) -> str:
        """The folder that its engine runs in; empty for the top of the repository."""
        return self.source.subdirectory.strip("/")

    def tracks(self, repository: ForgeRepository, branch: str) -> bool:
        """Return whether it runs what is in a branch, and not a fixed commit or version."""
        if self.source.tag or self.source.commit or self.source.version:
            return False
        return (self.source.branch or repository.default_branch) == branch


class UsedRepository(msgspec.Struct, frozen=True):
    """An address of git that something in a group uses."""

    organization_id: str
    group: str
    url: str


async def seen(tx: Tx, organization_id: str, visible: Visible, after: str, limit: int) -> list[ForgeConnection]:
    """Return the connections of an organization that the reader may see, ordered by id."""
    if visible.is_nothing:
        return []
    if visible.is_everything(organization_id):
        rows = await tx.all(_OF_ORGANIZATION, organization_id=organization_id, after=after, limit=limit)
    else:
        rows = await tx.all(_OF_READER, after=after, limit=limit, **visibility.params(visible))
    return rows_to(ForgeConnection, rows)


async def source_modules(tx: Tx) -> list[GitModule]:
    """Return the modules with git sources of all organizations that have a connection."""
    return rows_to(GitModule, await tx.all(_MODULES))


async def modules_of(tx: Tx, repository: ForgeRepository, folder: str | None = None) -> list[GitModule]:
    """Return the modules that a repository is the source of and that its connection serves, ordered by path.

    A module that a nearer connection serves is not among them. With `folder`, only modules that run in this folder are.
    """
    connection = await store.get(tx, repository.connection_id)
    connections = await store.of_organization(tx, connection.organization_id)
    pattern = f"%{_escaped(repository.name_key)}%"
    stored = msgspec.json.encode(folder or "").decode()[1:-1]
    rows = await tx.all(
        _MODULES + _ONE_REPOSITORY,
        organization_id=connection.organization_id,
        pattern=pattern,
        folder=f"%{_escaped(stored)}%",
    )
    found: list[GitModule] = []
    for each in rows_to(GitModule, rows):
        if folder not in (None, each.folder):
            continue
        meant = addresses.connection_for(connections, each.organization_id, each.group, each.source.url)
        is_of = meant is not None and meant[0].id == connection.id
        if is_of and meant is not None and addresses.key(meant[1]) == repository.name_key:
            found.append(each)
    return found


async def repository_of(tx: Tx, organization_id: str, group: str, url: str) -> tuple[ForgeConnection, str] | None:
    """Return the connection that serves a module of this group with this address, and the name of the repository."""
    return addresses.connection_for(await store.of_organization(tx, organization_id), organization_id, group, url)


async def with_repository(
    tx: Tx, pull_request_id: str
) -> tuple[ForgePullRequest, ForgeRepository, ForgeConnection] | None:
    """Return a pull request with its repository and connection."""
    row = await tx.one(
        f"""SELECT {PULL_REQUESTS.prefixed("p_")}, {REPOSITORIES.prefixed("r_")} FROM forge_pull_requests
        JOIN forge_repositories ON forge_repositories.id = forge_pull_requests.repository_id
        WHERE forge_pull_requests.id = :id""",
        id=pull_request_id,
    )
    if row is None:
        return None
    repository = row_to(ForgeRepository, _without_prefix(row, "r_"))
    connection = await store.get(tx, repository.connection_id)
    return row_to(ForgePullRequest, _without_prefix(row, "p_")), repository, connection


async def open_pull_requests(tx: Tx) -> list[str]:
    """Return the ids of all open pull requests, for a loop that begins with everything."""
    rows = await tx.all(
        """SELECT forge_pull_requests.id FROM forge_pull_requests
        JOIN forge_repositories ON forge_repositories.id = forge_pull_requests.repository_id
        WHERE forge_pull_requests.state = 'open' AND forge_repositories.is_watched ORDER BY forge_pull_requests.id"""
    )
    return [row["id"] for row in rows]


async def counts(tx: Tx, *repository_ids: str) -> dict[str, int]:
    """Return how many open pull requests each repository has."""
    rows = await tx.each_id(
        """SELECT batch.id, count(*) AS found FROM batch JOIN forge_pull_requests
            ON forge_pull_requests.repository_id = batch.id AND forge_pull_requests.state = 'open' GROUP BY batch.id""",
        sorted(set(repository_ids)),
    )
    found = {row["id"]: row["found"] for row in rows}
    return {each: found.get(each, 0) for each in repository_ids}


async def user_named(tx: Tx, connection_id: str, name: str) -> str | None:
    """Return the forge's own id of the user who has last used this name, in a pull request or a command."""
    return await tx.value(
        """SELECT author_id FROM (
            SELECT forge_pull_requests.author_id, forge_pull_requests.id AS at FROM forge_pull_requests
            JOIN forge_repositories ON forge_repositories.id = forge_pull_requests.repository_id
            WHERE forge_repositories.connection_id = :id AND lower(forge_pull_requests.author) = :name
            UNION ALL SELECT forge_comments.author_id, forge_comments.id AS at FROM forge_comments
            JOIN forge_repositories ON forge_repositories.id = forge_comments.repository_id
            WHERE forge_repositories.connection_id = :id AND lower(forge_comments.author) = :name) AS known
        ORDER BY substr(at, 5) DESC LIMIT 1""",
        id=connection_id,
        name=name.lower(),
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _without_prefix(row: Row, prefix: str) -> Row:
    return {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
