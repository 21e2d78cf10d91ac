"""Asks providers each hour whether the people who are logged in still exist, and evaluates their claims anew.

A refresh token must be used once: providers that replace it end everything when the earlier one comes back. So a server claims a session
before it asks, by the time until which the claim counts, and saves the answer only if that time is still its own. The next refresh token
is saved before anything else is done with the answer: whatever fails afterwards, the session can ask again.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from typing import Any

from terracrew import backoff
from terracrew.errors import Unavailable, Undecryptable
from terracrew.server.audit import service as audit
from terracrew.server.db.availability import retry_when_back
from terracrew.server.db.seam import Database, T, Tx
from terracrew.server.identity.people import store as people
from terracrew.server.identity.sso import arrivals, claims, providers, role_mapping, sealing, store
from terracrew.server.identity.sso.exchanges import Exchanges
from terracrew.server.identity.sso.model import (
    LinkedPerson,
    ProviderSession,
    ProviderTokens,
    SignInFailed,
    StoredProvider,
    Verified,
)
from terracrew.server.principals.model import SYSTEM
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import FailedRows

PERIOD_SECONDS = 20.0
MAX_AT_ONCE = 20
MAX_PER_ORGANIZATION = 5
"""How many sessions of one organization are asked about at once, by all servers: a provider can take its time for each answer."""
CLAIM_SECONDS = 90.0
ASK_SECONDS = 40.0
"""For the next tokens, and again for what they say: together less than a claim lasts, so that nobody else asks meanwhile."""
STOP_SECONDS = 5.0
"""How long a server that stops waits for the next refresh tokens that it has asked for."""
RETRY_SECONDS = 300.0
OUTAGE_SECONDS = 4 * 3600.0
"""How long sessions go on while their provider does not answer, counted from its last answer about the person."""


class SignOnRefresh:
    def __init__(self, db: Database, keys: Keyring, exchanges: Exchanges) -> None:
        self._db, self._keys, self._exchanges = db, keys, exchanges
        self._failed = FailedRows("single sign-on")
        self._asking = 0
        self._ended = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._ended.clear()
                await self._begin(tasks)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(backoff.jittered(PERIOD_SECONDS)):
                        await self._ended.wait()

    async def step(self) -> int:
        """Ask about some of the sessions that are due, wait for all answers, and return how many they are."""
        async with asyncio.TaskGroup() as tasks:
            return await self._begin(tasks)

    async def _begin(self, tasks: asyncio.TaskGroup) -> int:
        """Begin to ask about sessions that are due, and return how many. Roles that nobody has confirmed for too long end, too."""
        await providers.evaluate_stale(self._db)
        for identity_id in await self._db.read(lambda tx: store.unconfirmed(tx, MAX_AT_ONCE)):
            await self._db.write(lambda tx, one=identity_id: _forget(tx, one))
        free = MAX_AT_ONCE - self._asking
        if not free or not await self._db.read(store.has_due):
            return 0
        due = await self._db.write(lambda tx: store.claim_due(tx, CLAIM_SECONDS, free, MAX_PER_ORGANIZATION))
        for each in due:
            self._asking += 1
            tasks.create_task(self._ask_about(each))
        return len(due)

    async def _ask_about(self, session: ProviderSession) -> None:
        """Without the database, leave the session to its claim, which ends, and keep the others from being canceled."""
        try:
            with contextlib.suppress(Unavailable), self._failed.handling(session.session_id):
                await self._refresh(session)
        finally:
            self._asking -= 1
            self._ended.set()

    async def _refresh(self, session: ProviderSession) -> None:
        provider, identity = await self._db.read(lambda tx: _of(tx, session))
        if provider is None or identity is None or not provider.is_enabled:
            await self._db.write(lambda tx: _end(tx, session, "its provider is disabled"))
            return
        try:
            tokens = await _finished(self._renewed(provider, session))
            async with asyncio.timeout(ASK_SECONDS):
                found = await self._verified(provider, identity, tokens)
        except SignInFailed as failed:
            reason, is_gone = failed.reason, failed.is_grant_gone
            await self._db.write(lambda tx: _failed(tx, session, reason, is_gone=is_gone))
        except TimeoutError:
            await self._db.write(lambda tx: _failed(tx, session, f"{provider.name} did not answer in time"))
        except Undecryptable:
            await self._db.write(
                lambda tx: _end(tx, session, "its refresh token or the client secret cannot be decrypted")
            )
        else:
            await self._db.write(lambda tx: _confirmed(tx, session, found))

    async def _renewed(self, provider: StoredProvider, session: ProviderSession) -> ProviderTokens:
        """Use the refresh token of a session, and save the next one, as soon as the database is there."""
        text = sealing.refresh_token(self._keys, session.session_id, session.sealed or b"")
        grant = {"grant_type": "refresh_token", "refresh_token": text}
        secret = sealing.client_secret(self._keys, provider)
        async with asyncio.timeout(ASK_SECONDS):
            tokens = await self._exchanges.tokens(provider, secret, grant)
        if tokens.refresh_token and tokens.refresh_token != text:
            sealed = sealing.seal_refresh_token(self._keys, session.session_id, tokens.refresh_token)

            async def save() -> None:
                await self._db.write(lambda tx: store.save_refresh_token(tx, session, sealed))

            await retry_when_back(self._db, save)
        return tokens

    async def _verified(self, provider: StoredProvider, identity: LinkedPerson, tokens: ProviderTokens) -> Verified:
        if tokens.id_token:
            return await self._exchanges.verified(provider, tokens, time.time(), None, identity.subject)
        return await self._exchanges.refreshed(provider, tokens, identity.subject)


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that a cancellation does not interrupt for some seconds."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=STOP_SECONDS)
        task.cancel()
        raise


async def _forget(tx: Tx, identity_id: str) -> None:
    """Forget the claims of a person whom nobody has confirmed for too long, and take away the roles that followed from them."""
    identity = await store.find_identity(tx, identity_id)
    provider = None if identity is None else await store.hold_provider(tx, identity.provider_id)
    if provider is None or identity_id not in await store.unconfirmed(tx, None, identity_id):
        return
    identity = await store.identity_of_id(tx, identity_id)
    if identity is not None:
        await role_mapping.forget(tx, provider, identity)


async def _of(tx: Tx, session: ProviderSession) -> tuple[StoredProvider | None, LinkedPerson | None]:
    return await store.provider(tx, session.provider_id), await store.find_identity(tx, session.identity_id)


async def _confirmed(tx: Tx, session: ProviderSession, found: Verified) -> None:
    """Keep what the provider said: the claims, and the roles that follow.

    An answer without claims says that the person exists. It does not confirm the claims of the last login, which age.
    """
    provider = await store.hold_provider(tx, session.provider_id)
    identity = await store.identity_of_id(tx, session.identity_id)
    if provider is None or identity is None or not provider.is_enabled:
        return
    kept = claims.kept(found.claims, await arrivals.important_claims(tx, provider)) if found.claims else None
    try:
        await arrivals.require_admitted(tx, provider, identity.subject, identity.claims if kept is None else kept)
        await arrivals.require_may_enter(tx, provider, await people.hold_user(tx, identity.user_id))
    except SignInFailed as failed:
        await _end(tx, session, failed.reason)
        return
    due_at = arrivals.next_refresh(tx.now, found.refresh_expires_in)
    if not await store.save_refreshed(tx, session, due_at):
        return
    if kept is not None:
        await store.save_claims(tx, identity.id, kept)
        await role_mapping.apply(tx, provider, [identity.user_id])


async def _failed(tx: Tx, session: ProviderSession, reason: str, *, is_gone: bool = False) -> None:
    """End the session if the provider does not know it any more, or has not answered for too long. Otherwise ask again later."""
    if is_gone:
        await _end(tx, session, reason)
        await store.make_due(
            tx, session.identity_id
        )  # the person may be gone: the other sessions are asked about at once
    elif tx.now - session.confirmed_at > OUTAGE_SECONDS:
        await _end(tx, session, f"nobody has confirmed it for {OUTAGE_SECONDS / 3600:g} hours: {reason}")
    else:
        await store.note_refresh_failed(tx, session, reason, tx.now + RETRY_SECONDS)


async def _end(tx: Tx, session: ProviderSession, reason: str) -> None:
    await end_sessions(tx, session.provider_id, [session.session_id], reason)


async def end_sessions(tx: Tx, provider_id: str, session_ids: list[str], reason: str) -> int:
    """End sessions that began at a provider, and record for each person that they ended."""
    provider = await store.provider(tx, provider_id)
    ended = await people.delete_sessions(tx, session_ids)
    for user_id in sorted(ended):
        user = await people.user(tx, user_id)
        details = {"user": user.name, "provider": "" if provider is None else provider.name, "reason": reason}
        await audit.record(tx, SYSTEM, "session.revoke", "user", user_id, details, organization_id=user.organization_id)
        tx.wake("access", user_id)
    return len(ended)
