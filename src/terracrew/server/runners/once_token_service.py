"""Makes, lists and revokes once tokens, with which a machine runs one job of a runner (ADR 0061)."""

from datetime import UTC, datetime

from terracrew import ids
from terracrew.api.pages import Page
from terracrew.api.runners import MadeOnceToken, NewOnceToken, OnceToken, OnceTokenView, Runner
from terracrew.errors import Conflict, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.paging import page, start
from terracrew.server.principals import delegation
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service
from terracrew.server.runners.once_tokens import store
from terracrew.server.runners.once_tokens.store import MAX_WAITING_TOKENS
from terracrew.server.secrets import credentials

COMMAND = "terracrew runner start --once"
_SUFFIX_CHARACTERS = 8


async def create(tx: Tx, who: Principal, reference: str, new: NewOnceToken, url: str) -> MadeOnceToken:
    """Make a token. Only the answer contains it; the server stores its hash. It does not outlive the caller's credential."""
    runner = await service.hold(tx, who, reference)
    if runner.removing_since is not None:
        raise Conflict(f"`{runner.path}` is being removed: undrain it first, which stops the removal")
    if await store.count_waiting(tx, runner.id) >= MAX_WAITING_TOKENS:
        raise Conflict(
            f"{MAX_WAITING_TOKENS} tokens of `{runner.path}` wait for a job: revoke some, or wait until they expire"
        )
    ends_at = tx.now + new.seconds
    if delegation.is_bound(who) and who.credential_ends_at is not None:
        ends_at = min(ends_at, who.credential_ends_at)
    secret = credentials.new("tco")
    now, until = (datetime.fromtimestamp(each, UTC) for each in (tx.now, ends_at))
    token = OnceToken(ids.new("onc"), runner.id, who.name, now, until)
    await store.insert(tx, token, secret.sha256)
    await _record(tx, who, "runner.once_token_create", runner, token=token.id, until=f"{until:%Y-%m-%d %H:%M} UTC")
    return MadeOnceToken(
        token.id, runner.path, secret.text, until, _environment(runner, token, secret.text, url), COMMAND
    )


def _environment(runner: Runner, token: OnceToken, secret: str, url: str) -> dict[str, str]:
    """Return the settings of the machine. Its instance gets a name of its own, because it replaces no other one."""
    return {
        "TERRACREW_API_URL": url,
        "TERRACREW_RUNNER__ID": runner.id,
        "TERRACREW_RUNNER__ORGANIZATION_ID": runner.organization_id or "",
        "TERRACREW_RUNNER__INSTANCE": f"once-{token.id[-_SUFFIX_CHARACTERS:]}",
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID": runner.id,
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN": secret,
    }


async def _record(tx: Tx, who: Principal, action: str, runner: Runner, **details: str) -> None:
    """Record a change of the runner's tokens, which does not concern the scheduler."""
    facts = {"path": runner.path, **details}
    await audit.record(tx, who, action, "runner", runner.id, facts, organization_id=runner.organization_id)


async def listing(tx: Tx, who: Principal, reference: str, after: str | None, limit: int) -> Page[OnceTokenView]:
    """Return the tokens of a runner, the latest first, to those who may change the runner."""
    runner = await service.find(tx, who, reference, Verb.RUNNER_WRITE)
    return page(await store.shown(tx, runner.id, start(after), limit + 1), limit)


async def revoke(tx: Tx, who: Principal, reference: str, token_id: str) -> None:
    """End a token. A connection with it ends within seconds; a job that it has claimed continues, and its executor delivers."""
    runner = await service.find(tx, who, reference, Verb.RUNNER_WRITE)
    wanted = ids.parse("onc", token_id)
    found = await store.find(tx, wanted)
    if found is None or found.id != runner.id:
        raise NotFound(f"`{runner.path}` has no once token {wanted}")
    if await store.revoke(tx, runner.id, wanted):
        await _record(tx, who, "runner.once_token_revoke", runner, token=wanted)
