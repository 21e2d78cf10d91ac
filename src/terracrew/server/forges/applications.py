"""Makes an application of GitHub for a connection, by the manifest flow: the person's browser posts a manifest to GitHub, GitHub makes the
application and sends the browser back with a code, and the server exchanges the code for the key of the application.

What the person asked for travels with the browser, encrypted, bound to them and valid for an hour. Nothing is stored before the end.
"""

from urllib.parse import urlsplit

import msgspec

from terracrew import ids
from terracrew.api.forges import ForgeView, NewForge
from terracrew.errors import Forbidden, Invalid
from terracrew.forges import values
from terracrew.forges.github import api, manifest
from terracrew.server.db.seam import Database
from terracrew.server.forges import rules
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeCredential
from terracrew.server.forges.service import ForgeConnections, new_secret
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import sealed_texts
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import tree_path as paths

VALID_SECONDS = 3600.0
_CONTEXT = "application of GitHub that is being made"
MAX_CODE_CHARACTERS = 200
MAX_APP_NAME_CHARACTERS = 34


class NewApplication(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks for: a connection with an application of its own."""

    name: str
    """The name of the connection."""
    group: str = ""
    base_url: str = ""
    """The address of GitHub Enterprise Server; empty for github.com."""
    organization: str = ""
    """The organization on GitHub that the application belongs to; empty for the person's own account."""
    owner: str = ""
    """Only repositories of this owner belong to the connection; empty for all that it is installed for."""


class ManifestForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form that the browser sends to GitHub."""

    address: str
    origin: str
    manifest: str


class _AskedApplication(msgspec.Struct, frozen=True, kw_only=True):
    """What travels with the browser."""

    connection_id: str
    user_id: str
    organization_id: str
    until: float
    wanted: NewApplication


class GitHubApplications:
    def __init__(self, db: Database, forges: Forges, keys: Keyring, connections: ForgeConnections) -> None:
        self._db, self._forges, self._keys, self._connections = db, forges, keys, connections

    async def begin(self, who: Principal, wanted: NewApplication, redirect_path: str) -> ManifestForm:
        """Return what the browser posts to GitHub. `redirect_path` is where GitHub sends it afterwards."""
        paths.name(wanted.name)
        base_url = rules.base_url(_connection(wanted))
        for field in ("organization", "owner"):
            if (text := getattr(wanted, field)) and ("/" in text or values.name_problem(text)):
                raise Invalid.in_field(field, "this is not the name of an organization on GitHub")
        organization_id = who.organization_id or ""
        place = authorize.group(organization_id, paths.parse(wanted.group))
        await authorize.require(self._db, who, Verb.TREE_WRITE, place)
        asked = _AskedApplication(
            connection_id=ids.new("fcn"),
            user_id=who.id,
            organization_id=organization_id,
            until=self._forges.now().timestamp() + VALID_SECONDS,
            wanted=wanted,
        )
        server = self._connections.url
        body = manifest.manifest(
            f"terracrew-{wanted.name}"[:MAX_APP_NAME_CHARACTERS],
            server,
            f"{self._connections.hooks_url}/{asked.connection_id}",
            f"{server}{redirect_path}",
        )
        parts = urlsplit(base_url)
        return ManifestForm(
            address=manifest.address(base_url, wanted.organization, sealed_texts.seal(self._keys, asked, _CONTEXT)),
            origin=f"{parts.scheme}://{parts.netloc}",
            manifest=msgspec.json.encode(body).decode(),
        )

    def asked(self, who: Principal, state: str) -> NewApplication:
        """Return what this person has asked for. Raises Invalid if somebody else has, or too long ago."""
        return self._unsealed(who, state).wanted

    async def finish(self, who: Principal, state: str, code: str) -> ForgeView:
        """Get the key of the application from GitHub, and make the connection. A code is valid once."""
        asked = self._unsealed(who, state)
        if not code.isascii() or not code.isalnum() or len(code) > MAX_CODE_CHARACTERS:
            raise Invalid("GitHub has sent no code along: begin again")
        wanted = _connection(asked.wanted)
        base_url = rules.base_url(wanted)
        send = self._forges.sender_to(asked.organization_id, (f"{api.api_url(base_url)}/",))
        made = await manifest.exchange(send, base_url, code)
        own = ForgeCredential(private_key=made.pem.strip(), hook_secret=made.webhook_secret or new_secret())
        with_app = msgspec.structs.replace(wanted, app_id=str(made.id))
        return await self._connections.add(who, with_app, own, asked.connection_id)

    def _unsealed(self, who: Principal, state: str) -> _AskedApplication:
        asked = sealed_texts.unseal(self._keys, state, _AskedApplication, _CONTEXT)
        if asked is None:
            raise Invalid("this link is not of an application that you are making here: begin again")
        if asked.user_id != who.id or asked.organization_id != who.organization_id:
            raise Forbidden("somebody else, or you in another organization, is making this application")
        if asked.until < self._forges.now().timestamp():
            raise Invalid("this took more than an hour: begin again, and delete the application on GitHub")
        return asked


def _connection(wanted: NewApplication) -> NewForge:
    return NewForge(
        name=wanted.name, kind="github", group=wanted.group, base_url=wanted.base_url.strip(), owner=wanted.owner
    )
