"""The one job of `terracrew runner start --once`: whether there was one, how it ended, and which exit code says so."""

import asyncio
import contextlib
import logging

import msgspec
from urllib3.exceptions import HTTPError

from terracrew.backoff import Backoff
from terracrew.client import problems, transport
from terracrew.errors import TerracrewError, Unreachable
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.transfers import OUTCOME_PATH, AttemptOutcome

log = logging.getLogger(__name__)

EXIT_CODES = {"succeeded": 0, "failed": 10, "canceled": 11, "waiting": 14}
"""The codes of commands that wait for a job, by the outcome of its attempt. `waiting`: its plan waits for approval."""
NO_JOB_EXIT_CODE = 15
"""No job came in time, or before the credential ended."""
UNDECIDED_EXIT_CODE = 16
"""The attempt ended or was left without a result: its job is queued again, continues without this runner, or is in doubt."""
TOKEN_PREFIX = "tco_"  # noqa: S105
ASK_SECONDS = 60.0
"""How long the runner asks for the outcome after the attempt's processes have ended."""
_REQUEST_SECONDS = 15.0


class OneJobSettings(msgspec.Struct, frozen=True):
    wait_seconds: float | None = None
    """How long to wait for a job; None: for as long as the credential is valid."""


class OneJob:
    def __init__(self, settings: OneJobSettings, server_url: str) -> None:
        self.settings = settings
        self.is_taken = asyncio.Event()
        """Whether an attempt was granted, or found in the working directory: no further job is claimed."""
        self.is_left = False
        """Whether this process ends before its attempt, which continues."""
        self._server_url = server_url.rstrip("/")
        self._credentials: dict[AttemptRef, str] = {}

    def take(self, ref: AttemptRef, credential: str) -> None:
        """Note an attempt, and the credential with which its outcome can be asked for."""
        self._credentials[ref] = credential
        self.is_taken.set()

    async def exit_code(self) -> int:
        """Return the code of the first attempt that did not succeed. More than one is left only by an earlier runner process."""
        if not self._credentials:
            log.warning("exiting without a job")
            return NO_JOB_EXIT_CODE
        if self.is_left:
            return UNDECIDED_EXIT_CODE
        codes = [await self._code_of(ref) for ref in sorted(self._credentials)]
        return next((code for code in codes if code), 0)

    async def _code_of(self, ref: AttemptRef) -> int:
        found = await self._outcome(ref)
        if found is None:
            log.warning("how attempt %d of %s ended is not known", ref.attempt, ref.job_id)
            return UNDECIDED_EXIT_CODE
        code = EXIT_CODES.get(found.outcome or "", UNDECIDED_EXIT_CODE)
        words = found.outcome or "without an outcome"
        log.info("attempt %d of job %d ended: %s%s", ref.attempt, found.job_number, words, _because(found.reason))
        return code

    async def _outcome(self, ref: AttemptRef) -> AttemptOutcome | None:
        """Ask until the attempt has ended for the server, too. Returns None if it has not, or if the server does not tell."""
        delays, unreachable, clock = Backoff(), None, asyncio.get_running_loop().time
        end = clock() + ASK_SECONDS
        while clock() < end:
            unreachable = None
            try:
                found = await asyncio.to_thread(self._ask, ref)
                if found.outcome is not None:
                    return found
            except TerracrewError as error:
                if not error.is_transient:
                    log.warning("the server does not tell how the attempt ended: %s", error)
                    return None
                unreachable = error
            await asyncio.sleep(min(delays.next(), max(0.0, end - clock())))
        if unreachable is not None:
            raise unreachable
        return None

    def _ask(self, ref: AttemptRef) -> AttemptOutcome:
        url = self._server_url + OUTCOME_PATH.format(job_id=ref.job_id, attempt=ref.attempt)
        headers = {"Authorization": f"Bearer {self._credentials[ref]}", "Accept": "application/json"}
        try:
            answer = transport.pool(url).request("GET", url, headers=headers, timeout=_REQUEST_SECONDS, retries=False)
        except (HTTPError, OSError) as error:
            raise Unreachable(f"{self._server_url} cannot be reached: {error}") from error
        if answer.status == 200:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                return msgspec.json.decode(answer.data, type=AttemptOutcome)
        own = problems.own(answer.headers, answer.data)
        raise own or problems.foreign(answer.status, answer.headers, f"GET {url}")


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
