"""The first start of a server, which makes an organization and an administrator who logs in by a one-time link."""

from terracrew.errors import Conflict
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import service as people
from terracrew.server.identity.people import store
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets import credentials
from terracrew.server.tree.groups import service as groups


async def first_start(db: Database, organization: str = "default") -> str | None:
    """Make the first organization and its administrator, and return the token of a one-time link. Returns None if there are users."""
    link = credentials.new("tcl")

    async def work(tx: Tx) -> str | None:
        if await store.has_users(tx):
            return None
        made = await groups.ensure_organization(tx, organization)
        admin = await store.insert_user(tx, made.id, people.ADMINISTRATOR, is_system_admin=True)
        await role_store.bind_role(tx, made.id, "user", admin.id, "owner", "group", "", SYSTEM.id)
        await audit.record(tx, SYSTEM, "user.create", "user", admin.id, {"name": admin.name}, organization_id=made.id)
        await people.link_user(tx, admin, link, SYSTEM)
        return link.text

    try:
        return await db.write(work)
    except Conflict:  # another server was first
        return None
