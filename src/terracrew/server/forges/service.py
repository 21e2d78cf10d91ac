"""Makes, changes, finds, tests and deletes connections to forges, and the repositories that they watch, if the caller may do so.

A connection serves the modules of its group and of those below it, so it takes the right to change the group. Whoever may see the group
sees its connections, without their secrets. The kind and the address of a connection stay: what is known of its pull requests is of that
forge, and its token is sent to no other address than the one that it was given for.
"""

import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from terracrew import ids
from terracrew.api import fields
from terracrew.api.forges import (
    Finding,
    ForgeChange,
    ForgeDeliveryView,
    ForgeHookSecret,
    ForgeRepositoryView,
    ForgeTestResult,
    ForgeView,
    NewForge,
)
from terracrew.api.pages import Page
from terracrew.errors import Conflict, Invalid, NotFound, TerracrewError
from terracrew.forges import values
from terracrew.forges.contract import ForgeAway
from terracrew.server.addresses import is_loopback
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import (
    addresses,
    contact,
    delivery_store,
    hooks,
    reads,
    repository_store,
    rules,
    store,
    views,
)
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgeCredential, ForgeRepository
from terracrew.server.paging import cursor, page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path as paths

MAX_CONNECTIONS = 200
"""For each organization."""
MAX_ADDED_REPOSITORIES = 2_000
"""For each connection."""
MAX_REFERENCE_CHARACTERS = 2_000
_SECRET_BYTES = 32


class ForgeConnections:
    """What people do with connections. It has what a connection needs besides its row: the keyring and the forges."""

    def __init__(self, db: Database, forges: Forges, url: str) -> None:
        """`url` is the address of this server, as the forges reach it."""
        self._db, self._forges, self.url = db, forges, url.rstrip("/")

    @property
    def hooks_url(self) -> str:
        return self.url + hooks.PATH

    def view(self, connection: ForgeConnection) -> ForgeView:
        return views.of_connection(connection, self.hooks_url)

    async def create(self, who: Principal, wanted: NewForge) -> ForgeView:
        """Make a connection. The secret of its hooks is made here."""
        own = ForgeCredential(
            token=wanted.token.strip(), private_key=wanted.private_key.strip(), hook_secret=new_secret()
        )
        return await self.add(who, wanted, own, ids.new("fcn"))

    async def add(self, who: Principal, wanted: NewForge, own: ForgeCredential, connection_id: str) -> ForgeView:
        """Make a connection with this id and credential."""
        paths.name(wanted.name)
        path = paths.parse(wanted.group)
        rules.check(wanted, own)
        base_url = rules.base_url(wanted)

        async def work(tx: Tx) -> ForgeConnection:
            organization_id = who.organization_id or ""
            await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(organization_id, path))
            group = await groups.at(tx, who, path)
            if await store.count(tx, organization_id) >= MAX_CONNECTIONS:
                words = (
                    f"the organization has {MAX_CONNECTIONS} connections to forges: delete one that is no longer used"
                )
                raise Conflict(words)
            made = ForgeConnection(
                id=connection_id,
                organization_id=organization_id,
                group_id=group.id,
                group=group.path,
                name=wanted.name,
                description=wanted.description,
                kind=wanted.kind,
                base_url=base_url,
                owner=wanted.owner,
                app_id=wanted.app_id,
                username=wanted.username,
                makes_hooks=wanted.makes_hooks,
                merges=wanted.merges,
                sealed=self._forges.seal(connection_id, own),
                credential_version=1,
                created_by=who.id,
                created_at=tx.moment,
            )
            await store.insert(tx, made)
            await _record(tx, who, made, "forge.create", {"kind": made.kind, "base_url": base_url})
            return made

        try:
            return self.view(await self._db.write(work))
        except Conflict as error:
            raise _explained(error, wanted.name) from None

    async def change(self, who: Principal, reference: str, wanted: ForgeChange) -> ForgeView:
        """Change a connection. A token or key that is not given, or empty, stays: nobody can read it back to send it again."""
        asked = fields.given(wanted)
        if "name" in asked:
            paths.name(asked["name"])

        async def work(tx: Tx) -> ForgeConnection:
            before = await _hold(tx, who, reference)
            was = self._forges.credential(before)
            given = {key: text for key in ("token", "private_key") if (text := str(asked.get(key) or "").strip())}
            after = fields.changed(as_new(before), wanted, token="", private_key="")
            own = replace(was, **given)
            if (
                after.app_id != before.app_id
            ):  # from a token to an application, or the reverse: the other one is forgotten
                own = ForgeCredential(hook_secret=was.hook_secret, **given)
            rules.check(after, own)
            changed = replace(
                before,
                name=after.name,
                description=after.description,
                owner=after.owner,
                app_id=after.app_id,
                username=after.username,
                makes_hooks=after.makes_hooks,
                merges=after.merges,
            )
            if own != was:
                changed = _with_credential(changed, self._forges.seal(before.id, own))
            if changed == before:
                return before
            await store.save(tx, before, changed)
            if (own, changed.makes_hooks, changed.username) != (was, before.makes_hooks, before.username):
                await repository_store.check_now(tx, before.id)
            names = [name for name in ForgeChange.__struct_fields__ if name not in ("token", "private_key")]
            what = [name for name in names if getattr(before, name) != getattr(changed, name)]
            what += [name for name in given if getattr(was, name) != getattr(own, name)]
            await _record(tx, who, changed, "forge.change", {"changed": sorted(what)})
            return changed

        try:
            return self.view(await self._db.write(work))
        except Conflict as error:
            raise _explained(error, str(asked.get("name", ""))) from None

    async def replace_hook_secret(self, who: Principal, reference: str) -> ForgeHookSecret:
        """Make another secret for the hooks, and return it this once. Hooks that the server makes get it within moments."""
        secret = new_secret()

        async def work(tx: Tx) -> ForgeConnection:
            before = await _hold(tx, who, reference)
            own = replace(self._forges.credential(before), hook_secret=secret)
            after = _with_credential(before, self._forges.seal(before.id, own))
            await store.save(tx, before, after)
            await repository_store.check_now(tx, before.id)
            await _record(tx, who, after, "forge.replace_hook_secret")
            return after

        made = await self._db.write(work)
        return ForgeHookSecret(url=f"{self.hooks_url}/{made.id}", secret=secret)

    async def show(self, tx: Tx, who: Principal, reference: str) -> ForgeView:
        return self.view(await find(tx, who, reference))

    async def listing(self, tx: Tx, who: Principal, after: str | None, limit: int) -> Page[ForgeView]:
        """Return the connections in the groups that the caller may see."""
        visible = await authorize.visible(tx, who, Verb.TREE_READ)
        found = page(await reads.seen(tx, who.organization_id or "", visible, start(after), limit + 1), limit)
        return Page([self.view(each) for each in found.items], found.next)

    async def test(self, who: Principal, reference: str, repository: str) -> ForgeTestResult:
        """Ask the forge what the connection may do, and write what was found. Nothing is changed there."""

        async def begin(tx: Tx) -> tuple[ForgeConnection, str]:
            connection = await find(tx, who, reference, Verb.TREE_WRITE)
            await _record(tx, who, connection, "forge.test")
            watched = await repository_store.of_connection(tx, connection.id, "", 1)
            return connection, repository or (watched[0].name if watched else "")

        if repository:
            _check_name(repository)
        connection, name = await self._db.write(begin)
        problem: TerracrewError | None = None
        try:
            findings = [*await self._forges.of(connection).check(name), *self._reachable(connection)]
        except TerracrewError as error:
            problem = error
            findings = [Finding(name="reach the forge", is_good=False, message=error.message)]

        async def end(tx: Tx) -> None:
            before = await store.hold(tx, connection.id)
            if before is None or before.credential_version != connection.credential_version:
                return
            if isinstance(problem, ForgeAway):
                await contact.failed(tx, connection, problem)
            elif all(each.is_good for each in findings if each.name == "sign in"):
                await contact.good(tx, connection)
            now = await store.get(tx, connection.id)
            await store.save(tx, now, replace(now, tested_at=tx.moment, findings=findings))
            tx.wake("forges", connection.id)

        await self._db.write(end)
        is_good = all(each.is_good for each in findings)
        return ForgeTestResult(repository=name, is_good=is_good, findings=findings)

    async def repair_hook(self, who: Principal, reference: str, repository_id: str) -> ForgeRepositoryView:
        """Make the hook of a repository, or repair and enable the one that there is, at once."""

        async def begin(tx: Tx) -> tuple[ForgeConnection, ForgeRepository]:
            connection = await find(tx, who, reference, Verb.TREE_WRITE)
            found = await _repository(tx, connection, repository_id)
            await _record(tx, who, connection, "forge.repair_hook", {"repository": found.name})
            return connection, found

        connection, repository = await self._db.write(begin)
        forge = self._forges.of(connection)
        look = await hooks.look_at_hook(forge, connection, repository, self.hooks_url, self._forges)

        async def end(tx: Tx) -> ForgeRepositoryView:
            before = await repository_store.hold(tx, repository.id)
            if before is None:
                raise NotFound(f"{repository.name} is not watched any more")
            after = replace(before, hook_id=look.hook_id, hook_status=look.status, hook_message=look.message)
            await repository_store.save(tx, before, after)
            tx.wake("forges", connection.id)
            return (await views.of_repositories(tx, [after]))[0]

        return await self._db.write(end)

    def _reachable(self, connection: ForgeConnection) -> Sequence[Finding]:
        """Return whether hooks can reach this server, as far as its address says."""
        if not connection.makes_hooks or connection.kind == "git":
            return []
        own, other = urlsplit(self.url).hostname or "", urlsplit(connection.base_url).hostname or ""
        is_good = not is_loopback(own) or is_loopback(other)
        words = (
            f"the forge cannot deliver to {self.url}, which only this machine reaches: give the server's setting "
            "`public_url` an address that the forge reaches. Until then, changes are found by polling"
        )
        return [Finding(name="be reached by hooks", is_good=is_good, message="" if is_good else words)]


async def find(tx: Tx, who: Principal, reference: str, verb: Verb = Verb.TREE_READ) -> ForgeConnection:
    """Find a connection by its id or its path (`group/name`), if the caller has the right to do `verb` in its group."""
    unseen = store.missing(reference)
    if ids.is_id("fcn", reference):
        found = await store.find(tx, ids.parse("fcn", reference))
    elif reference.isprintable() and len(reference) <= MAX_REFERENCE_CHARACTERS:
        found = await store.at(tx, who.organization_id or "", *paths.split(reference))
    else:
        found = None
    if found is None:
        raise unseen
    await authorize.require(tx, who, verb, place(found), unseen)
    return found


async def that_serve(tx: Tx, who: Principal, organization_id: str, group: str) -> list[ForgeConnection]:
    """Return the connections that serve the modules of a group: its own, and those of the groups above that the caller may see."""
    visible = await authorize.visible(tx, who, Verb.TREE_READ)
    found = await store.of_organization(tx, organization_id)
    return [each for each in found if addresses.serves(each, organization_id, group) and visible.covers(place(each))]


async def delete(tx: Tx, who: Principal, reference: str) -> None:
    """Delete a connection, with everything that is known of its repositories. Hooks that were made stay: their deliveries are refused."""
    found = await _hold(tx, who, reference)
    await store.delete(tx, found.id)
    await _record(tx, who, found, "forge.delete")


async def list_repositories(
    tx: Tx, who: Principal, reference: str, after: str | None, limit: int
) -> Page[ForgeRepositoryView]:
    found = await find(tx, who, reference)
    watched = page(await repository_store.of_connection(tx, found.id, start(after), limit + 1), limit)
    return Page(await views.of_repositories(tx, watched.items), watched.next)


async def add_repository(tx: Tx, who: Principal, reference: str, name: str) -> ForgeRepositoryView:
    """Watch a repository that no module has as its source yet."""
    connection = await _hold(tx, who, reference)
    _check_name(name)
    if connection.owner and not addresses.key(name).startswith(f"{connection.owner.lower()}/"):
        raise Invalid.in_field("name", f"only repositories of {connection.owner} belong to this connection")
    if await repository_store.count_added(tx, connection.id) >= MAX_ADDED_REPOSITORIES:
        raise Conflict(f"the connection has {MAX_ADDED_REPOSITORIES} repositories that people have added: remove some")
    await repository_store.watch(tx, connection.id, [name], is_added=True)
    found = await repository_store.named(tx, connection.id, name)
    assert found is not None
    await _record(tx, who, connection, "forge.add_repository", {"repository": found.name})
    return (await views.of_repositories(tx, [found]))[0]


async def remove_repository(tx: Tx, who: Principal, reference: str, repository_id: str) -> None:
    """Watch a repository no longer that somebody has added. If modules have it as their source, it stays because of them."""
    connection = await _hold(tx, who, reference)
    found = await _repository(tx, connection, repository_id)
    if not found.is_added:
        raise Conflict(
            f"{found.name} is watched because modules have it as their source: it is given up when none has it any more"
        )
    held = await repository_store.hold(tx, found.id)
    if held is not None:
        is_used = bool(await reads.modules_of(tx, held))
        await repository_store.save(tx, held, replace(held, is_added=False, is_watched=is_used))
    await _record(tx, who, connection, "forge.remove_repository", {"repository": found.name})


async def list_deliveries(
    tx: Tx, who: Principal, reference: str, after: str | None, limit: int
) -> Page[ForgeDeliveryView]:
    """Return what was delivered, the newest first."""
    found = await find(tx, who, reference)
    rows = await delivery_store.of_connection(tx, found.id, start(after), limit + 1)
    following = cursor(rows[limit - 1].id) if len(rows) > limit else None
    return Page([views.of_delivery(each) for each in rows[:limit]], following)


async def handle_again(tx: Tx, who: Principal, reference: str, delivery_id: str) -> ForgeDeliveryView:
    """Ask once more about what a delivery was about."""
    connection = await find(tx, who, reference, Verb.TREE_WRITE)
    unknown = NotFound(f"the connection {connection.path} has no delivery {delivery_id[:100]!r}")
    id_ = ids.parse("fdl", delivery_id) if ids.is_id("fdl", delivery_id) else ""
    found = await delivery_store.find(tx, connection.id, id_) if id_ else None
    if found is None:
        raise unknown
    if not found.events:
        raise Conflict("there is nothing in this delivery to ask about")
    await delivery_store.handle_again(tx, found.id)
    await _record(tx, who, connection, "forge.handle_again", {"delivery": found.id})
    tx.wake("forge_deliveries", connection.id)
    after = await delivery_store.find(tx, connection.id, found.id)
    return views.of_delivery(after or found)


def place(connection: ForgeConnection) -> authorize.Place:
    return authorize.group(connection.organization_id, connection.group)


def as_new(connection: ForgeConnection) -> NewForge:
    """Return the connection as somebody would ask for it, without its secrets."""
    return fields.created(NewForge, connection, token="", private_key="")


def new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


def _with_credential(connection: ForgeConnection, sealed: bytes) -> ForgeConnection:
    """Return a connection with another credential, which is used at once."""
    version = connection.credential_version + 1
    return replace(connection, sealed=sealed, credential_version=version, problem="", failures=0, away_until=None)


def _check_name(name: str) -> None:
    if problem := values.name_problem(name):
        raise Invalid.in_field("name", f"this is not the name of a repository: {problem}")


async def _repository(tx: Tx, connection: ForgeConnection, repository_id: str) -> ForgeRepository:
    found = None
    if ids.is_id("frp", repository_id):
        found = await repository_store.get(tx, ids.parse("frp", repository_id))
    elif not values.name_problem(repository_id):
        found = await repository_store.named(tx, connection.id, repository_id)
    if found is None or found.connection_id != connection.id or not found.is_watched:
        raise NotFound(f"the connection {connection.path} watches no repository {repository_id[:300]!r}")
    return found


async def _hold(tx: Tx, who: Principal, reference: str) -> ForgeConnection:
    found = await find(tx, who, reference, Verb.TREE_WRITE)
    held = await store.hold(tx, found.id)
    if held is None:
        raise NotFound(f"the connection {found.path} has just been deleted")
    return held


def _explained(error: Conflict, name: str) -> Conflict:
    if error.details.get("constraint") != "forge_connections_name":
        return error
    return Conflict(f"there is a connection {name!r} in that group already", field="name")


async def _record(
    tx: Tx, who: Principal, connection: ForgeConnection, action: str, details: dict[str, Any] | None = None
) -> None:
    facts = {"name": connection.name, "group": connection.group, "connection": connection.path, **(details or {})}
    await audit.record(tx, who, action, "forge", connection.id, facts, organization_id=connection.organization_id)
    tx.wake("forges", connection.id)
