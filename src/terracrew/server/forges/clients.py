"""Gives the domain a forge to ask: the adapter for the kind of a connection, with its credential, behind the guard of outgoing requests.

    found = await db.read(lambda tx: reads.with_repository(tx, pull_request_id))
    pull_request, repository, connection = found
    forge = forges.of(connection)                           # the contract of `terracrew.forges.contract`
    await forge.set_status(repository.name, pull_request.head_commit, status)
    login = await forges.git_login(connection, repository)  # for `RepositoryMirrors.fetch` of `repository.clone_url`

A question about a pull request is asked with `answers.refresh`, which also writes what is answered. A caller that gets ForgeAway passes
it to `contact.note_failure` and asks again later; `connection.away_until` says when. ForgeRefused needs a person.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from terracrew.forges.contract import Forge, ForgeAnswer, ForgeAway, ForgeRefused, ForgeRequest, Send
from terracrew.forges.gitea.forge import GiteaForge
from terracrew.forges.github.api import AppAccess, TokenAccess
from terracrew.forges.github.forge import GitHubForge
from terracrew.forges.gitlab.forge import GitLabForge
from terracrew.forges.plain_git.forge import PlainGitForge
from terracrew.server.forges import addresses, sealing
from terracrew.server.forges.model import ForgeConnection, ForgeCredential, ForgeRepository
from terracrew.server.git.remotes import RemoteLogin
from terracrew.server.outgoing.answers import NotSent
from terracrew.server.outgoing.client import OutgoingClient, OutgoingRequest
from terracrew.server.secrets.keyring import Keyring

MAX_ANSWER_BYTES = 16 << 20
"""How much of an answer is read. A page of a hundred pull requests has up to three megabytes."""
ANSWER_SECONDS = 20.0
MAX_KEPT = 2_000


class Forges:
    """Makes a forge for each connection, and keeps it while its credential stays: it keeps tokens that it got from the forge."""

    def __init__(self, client: OutgoingClient, keys: Keyring, clock: Callable[[], float] = time.time) -> None:
        self._client, self._keys, self._clock = client, keys, clock
        self._made: dict[str, tuple[tuple[str, str, str, bytes], Forge]] = {}

    def of(self, connection: ForgeConnection) -> Forge:
        """Return the forge of a connection. Raises Undecryptable if this server does not have its key."""
        state = (connection.base_url, connection.app_id, connection.username, connection.sealed)
        known = self._made.get(connection.id)
        if known is not None and known[0] == state:
            return known[1]
        while len(self._made) >= MAX_KEPT:
            self._made.pop(next(iter(self._made)))
        made = self.make(connection, self.credential(connection))
        self._made[connection.id] = state, made
        return made

    async def git_login(self, connection: ForgeConnection, repository: ForgeRepository) -> RemoteLogin | None:
        """Return what git authenticates with to fetch `repository.clone_url`; None if the connection has no credential.

        Raises ForgeAway or ForgeRefused: an application of GitHub gets a token for each repository, which is valid for an hour.
        """
        found = await self.of(connection).git_credential(repository.name)
        return None if found is None else RemoteLogin.basic(found.username, found.password)

    def credential(self, connection: ForgeConnection) -> ForgeCredential:
        return sealing.unseal(self._keys, connection)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    def seal(self, connection_id: str, credential: ForgeCredential) -> bytes:
        return sealing.seal(self._keys, connection_id, credential)

    def make(self, connection: ForgeConnection, credential: ForgeCredential) -> Forge:
        """Return a forge with this credential. Raises Invalid if it cannot be one of this kind."""
        send = self.sender(connection)
        match connection.kind:
            case "github":
                if connection.app_id:
                    access = AppAccess(
                        send, connection.base_url, connection.app_id, credential.private_key, self._clock
                    )
                else:
                    access = TokenAccess(send, connection.base_url, credential.token)
                return GitHubForge(connection.base_url, access)
            case "gitlab":
                return GitLabForge(send, connection.base_url, credential.token)
            case "gitea":
                return GiteaForge(send, connection.base_url, credential.token)
            case "git":
                return PlainGitForge(send, connection.base_url, connection.username, credential.token)

    def sender(self, connection: ForgeConnection) -> Send:
        """Return what sends requests of a connection: to its own addresses only, so that its credential goes nowhere else."""
        return self.sender_to(connection.organization_id, tuple(addresses.origins(connection)))

    def sender_to(self, organization_id: str, origins: tuple[str, ...]) -> Send:
        async def send(request: ForgeRequest) -> ForgeAnswer:
            if not request.url.startswith(origins):
                raise ForgeRefused("a request to an address that is not of this connection was not sent")
            outgoing = OutgoingRequest(
                request.url,
                request.method,
                request.headers,
                request.body,
                seconds=ANSWER_SECONDS,
                max_bytes=MAX_ANSWER_BYTES,
                keeps_connection=request.method == "GET",
            )
            try:
                answer = await self._client.send(organization_id, outgoing)
            except NotSent as error:
                if error.is_refused:
                    remedy = "add the host to the server's setting private_destinations if that is meant"
                    raise ForgeRefused(f"{error.reason}: {remedy}") from None
                raise ForgeAway(error.reason) from None
            if answer.incomplete:
                raise ForgeAway(f"the answer of the forge is not whole: {answer.incomplete}")
            return ForgeAnswer(answer.status, dict(answer.headers), answer.body)

        return send
