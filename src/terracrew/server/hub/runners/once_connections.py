"""What a connection with a once token may not do: take the place of another instance, or stay when another one has the job."""

from collections.abc import Sequence

from terracrew.errors import Conflict, CredentialEnded, Unauthenticated
from terracrew.protocol.messages import RunnerHello
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.seam import Database, Tx
from terracrew.server.hub.runners.takeover_audit import FormerInstance
from terracrew.server.identity.keys.signing import GENERIC
from terracrew.server.identity.oidc.tokens import AccessTokens
from terracrew.server.principals.model import Principal
from terracrew.server.runners.once_tokens import store
from terracrew.server.secrets import credentials


async def check_seats(tx: Tx, who: Principal, hello: RunnerHello, seats: Sequence[FormerInstance]) -> None:
    """Refuse a process with a once token that would take over an instance that is not its own.

    Its own is one with the key of its working directory, or, as long as the token waits for its job, one that came with the
    same token: a machine may have been made anew. The instances of other credentials have attempts of their own.
    """
    token_id = who.once_token_id
    if token_id is None:
        return
    key = credentials.digest(hello.instance_key)
    others = [seat for seat in seats if seat.key_sha256 != key]
    if not others:
        return
    found = await store.find(tx, token_id)
    is_waiting = found is not None and found.status == "waiting"
    for seat in others:
        if not (is_waiting and seat.name == hello.instance and seat.once_token_id == token_id):
            raise Conflict(
                f"the instance {seat.name} has this place, and a token for one job does not take it over: give this instance "
                "another name (runner.instance) and, if its runner allows one process, wait until that one has ended"
            )


async def check_place(tx: Tx, who: Principal, instance_id: str) -> None:
    """Refuse an instance whose once token has ended, or was used by another instance."""
    if who.once_token_id is None:
        return
    found = await store.find(tx, who.once_token_id)
    if found is None:
        raise Unauthenticated(GENERIC)
    if not found.is_valid_for(instance_id):
        raise CredentialEnded(store.ENDED[found.status])


async def end_of(db: Database, tokens: AccessTokens, session: RunnerSession) -> Unauthenticated | None:
    """Return why the credential of a connection is not valid for its instance any more; None if it is."""
    token_id = session.principal.once_token_id
    if token_id is None:
        is_live = await tokens.is_live(session.principal)
        return None if is_live else Unauthenticated("the credential of this connection was revoked")
    found = await db.read(lambda tx: store.find(tx, token_id))
    if found is None:  # its runner was removed, or it ended long ago
        return CredentialEnded(store.ENDED["used"])
    return None if found.is_valid_for(session.instance_id) else CredentialEnded(store.ENDED[found.status])
