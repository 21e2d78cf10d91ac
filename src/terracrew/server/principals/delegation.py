"""Limits what can be created with an API token or a client secret: nothing outlives it or gives more control of the account.

These limits do not apply to a person who is logged in, or to the token that the server leaves on its own machine. With those,
a person already controls the account or the server's data.
"""

from datetime import UTC, datetime

from terracrew.errors import Forbidden
from terracrew.server.principals.model import Principal

DAY_SECONDS = 86400


def is_bound(who: Principal) -> bool:
    """Return whether this request was made with a credential that may have leaked: an API token or a client secret."""
    return who.credential in ("token", "secret")


def require_login(who: Principal, what: str) -> None:
    """Refuse an action that gives lasting control of an account, unless the person is logged in. `what` completes the message
    "an API token cannot …"."""
    if is_bound(who):
        raise Forbidden(
            f"an API token cannot {what}: log in to the dashboard, or use the command line on the server's machine"
        )


def require_no_end(who: Principal, what: str) -> None:
    """Refuse to create something that never expires with a credential that expires."""
    if is_bound(who) and who.credential_ends_at is not None:
        raise Forbidden(
            f"{_end(who.credential_ends_at)}, and {what} would outlive it: use a credential that does not expire, or log in"
        )


def default_expiry(who: Principal, now: float, days: int) -> float:
    """Return when something expires that was created without a number of days: after this many, or with the credential before."""
    ends_at = now + days * DAY_SECONDS
    return ends_at if not is_bound(who) or who.credential_ends_at is None else min(ends_at, who.credential_ends_at)


def expiry(who: Principal, now: float, days: int | None) -> float | None:
    """Return when something that is created with this credential expires: not after the credential itself."""
    wanted = None if days is None else now + days * DAY_SECONDS
    if not is_bound(who) or who.credential_ends_at is None:
        return wanted
    if wanted is not None and wanted > who.credential_ends_at:
        end = _end(who.credential_ends_at)
        raise Forbidden(
            f"{end}, and nothing that it creates can be valid for longer: ask for fewer days, or leave the number out"
        )
    return who.credential_ends_at if wanted is None else wanted


def _end(at: float) -> str:
    return f"the credential that you use ends at {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
