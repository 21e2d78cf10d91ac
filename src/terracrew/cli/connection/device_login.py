"""Logs in with a browser on any other machine: it asks the server again and again whether the person has answered there."""

import time

from terracrew.cli.connection.deadline import TimedOut
from terracrew.client.logins import DeviceCode, GivenToken, LoginRefused, Logins
from terracrew.errors import RateLimited, Unavailable, Unreachable

SLOWER_SECONDS = 5.0
"""By how much the interval grows when the server says `slow_down` (RFC 8628, 3.5)."""
_WORDS = {
    "access_denied": "the login was denied in the browser, and nothing was stored",
    "expired_token": "nobody typed the code before it expired, and nothing was stored",
}


class Polling:
    """Asks for the answer at the server's pace, through outages, and until the code expires."""

    def __init__(self, logins: Logins, code: DeviceCode, max_wait_seconds: float) -> None:
        self._logins, self._code = logins, code
        self._interval = code.interval
        self._ends_at = time.monotonic() + min(code.expires_in, max_wait_seconds)

    def pause(self) -> None:
        """Sleep until the next request is in time."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimedOut(_WORDS["expired_token"], hint="log in again")
        time.sleep(min(self._interval, left))

    def ask(self) -> GivenToken | None:
        """Ask once; None if there is no answer yet."""
        try:
            return self._logins.poll(self._code.device_code)
        except LoginRefused as error:
            if error.reason == "slow_down":
                self._interval += SLOWER_SECONDS
            elif error.reason != "authorization_pending":
                raise LoginRefused(_WORDS.get(error.reason, error.message), error.reason) from None
        except (Unreachable, Unavailable, RateLimited):
            pass  # the code stays valid, and the next request may arrive
        return None
