"""The APIs of AWS as one identity, called in threads: repeated while AWS is busy or silent, and counted.

One object serves all calls of an identity. What it is asked for never appears in a log or in an error, because requests contain tokens.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Literal

import msgspec

from terracrew.backoff import Backoff
from terracrew.clouds.aws.errors import ENDED_SESSION_CODES, AwsRefused, SignInRefused, action_name, translated
from terracrew.clouds.aws.permissions import parsed_arn
from terracrew.clouds.aws.sessions import RoleSession
from terracrew.clouds.contract import CloudSilent, SignToken
from terracrew.clouds.model import AwsAccount, CloudIdentity
from terracrew.errors import Invalid

log = logging.getLogger(__name__)

Answer = dict[str, Any]
Service = Literal[
    "ec2", "ecr", "ecs", "iam", "logs", "resourcegroupstaggingapi", "secretsmanager", "service-quotas", "sts"
]
_MAX_CALLS = 8
MAX_RETRY_SECONDS = 90.0
"""A call is repeated for this long by default while AWS throttles or does not answer."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 20.0
_PAGE_TOKENS = ("nextToken", "NextToken", "Marker", "PaginationToken")
_report: ContextVar[Callable[[str], None] | None] = ContextVar("aws_report", default=None)


_SHARE_RATIO = 0.8
"""Which part of the rates of AWS is used. Other programs of the account use the same buckets."""
Clock = Callable[[], float]


class _Rate(msgspec.Struct, frozen=True):
    actions: frozenset[str]
    burst: int
    """How many requests AWS accepts at once."""
    a_second: float
    """How many it accepts in the long run."""


_RATES = (
    _Rate(frozenset({"ecs:RunTask"}), 100, 20),
    _Rate(frozenset({"ecs:RunTask", "ecs:StopTask"}), 100, 40),
    _Rate(frozenset({"ecs:DescribeTasks", "ecs:ListTasks"}), 100, 20),
    _Rate(frozenset({"ecs:RegisterTaskDefinition", "ecs:DeregisterTaskDefinition"}), 20, 1),
    _Rate(frozenset({"ecs:DeleteTaskDefinitions"}), 5, 1),
    _Rate(frozenset({"ecs:CreateCluster", "ecs:DeleteCluster"}), 20, 1),
)


class Pacer:
    """The buckets of one account in one region."""

    def __init__(self, clock: Clock = time.monotonic, share: float = _SHARE_RATIO) -> None:
        self._clock = clock
        self._share = share
        self._left = [float(rate.burst) * share for rate in _RATES]
        self._filled_at = [clock() for _ in _RATES]

    def reserve(self, action: str) -> float:
        """Take a request from the buckets of an action. Returns how many seconds it has to wait for its turn."""
        now, wait = self._clock(), 0.0
        for number, rate in enumerate(_RATES):
            if action not in rate.actions:
                continue
            a_second = rate.a_second * self._share
            filled = self._left[number] + (now - self._filled_at[number]) * a_second
            # Below zero are the requests that wait already.
            self._left[number] = min(rate.burst * self._share, filled) - 1
            self._filled_at[number] = now
            wait = max(wait, -self._left[number] / a_second)
        return wait


_pacers: dict[tuple[str, str], Pacer] = {}


def pacer_of(account: str, region: str) -> Pacer:
    """Return the buckets of an account in a region, which all identities of this process share."""
    return _pacers.setdefault((account, region), Pacer())


class AwsApi:
    def __init__(
        self,
        identity: CloudIdentity,
        sign_token: SignToken,
        *,
        pacer: Pacer | None = None,
    ) -> None:
        """`pacer` is by default that of the account and region, which all identities share."""
        if find_spec("boto3") is None:
            raise Invalid("a cloud identity of AWS needs boto3: install terracrew[aws]")
        self._threads = ThreadPoolExecutor(_MAX_CALLS, "aws")
        self._session = RoleSession(identity, sign_token, self._in_thread, self._count)
        assert isinstance(identity.cloud, AwsAccount)
        self.identity = identity
        self.account: AwsAccount = identity.cloud
        self._pacer = pacer or pacer_of(parsed_arn(self.account.role_arn).account, self.account.region)
        self.requests: Counter[str] = Counter()
        """How often each action was asked for, such as `ecs:RunTask`, with repetitions."""

    async def call(
        self, service: Service, operation: str, *, max_seconds: float = MAX_RETRY_SECONDS, **arguments: Any
    ) -> Answer:
        """Make one call: `call("ecs", "run_task", cluster=…)`. Raises AwsRefused or CloudSilent.

        It is repeated for `max_seconds` while AWS throttles or gives no answer. So a thing that is made may already exist from an
        earlier try whose answer was lost.
        """
        delays, until, has_renewed = (
            Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS),
            time.monotonic() + max_seconds,
            False,
        )
        while True:
            try:
                await self._session.require()
                action = action_name(service, operation)
                if wait := self._pacer.reserve(action):
                    await asyncio.sleep(wait)
                self._count(action)
                return await self._in_thread(self._call, service, operation, arguments)
            except AwsRefused as error:
                if has_renewed or isinstance(error, SignInRefused) or error.aws_code not in ENDED_SESSION_CODES:
                    raise
                has_renewed = True
                self._session.forget()
                continue
            except CloudSilent as error:
                pause = delays.next()
                if time.monotonic() + pause > until:
                    raise
                self._say(f"{error.message}: asking again in {pause:.1f} s")
            await asyncio.sleep(pause)

    async def pages(self, service: Service, operation: str, **arguments: Any) -> AsyncGenerator[Answer]:
        """Make a call for each page of a list."""
        token: dict[str, Any] = {}
        while True:
            answer = await self.call(service, operation, **arguments, **token)
            yield answer
            token = {name: answer[name] for name in _PAGE_TOKENS if answer.get(name)}
            if not token or answer.get("IsTruncated") is False:
                return

    async def listed(self, service: Service, operation: str, key: str, **arguments: Any) -> list[Any]:
        """Return the entries of all pages of a list, by the name that it has in the answer."""
        return [entry async for page in self.pages(service, operation, **arguments) for entry in page.get(key, [])]

    async def new_token(self) -> str:
        """Return a token that the server signs for the identity. Raises SignInRefused or CloudSilent."""
        return await self._session.new_token()

    async def sign_in(self) -> None:
        """Sign in anew, even if there is a session: its role may have been changed since. Raises SignInRefused or CloudSilent."""
        await self._session.require(is_new=True)

    async def probe(self, *, external_id: str = "") -> None:
        """Try to sign in as somebody else: with this external id, or with a token of a subject that no identity has.

        The credentials are thrown away if AWS gives any. Raises SignInRefused, which is the answer that a good role gives.
        """
        is_web_identity = self.account.way == "web_identity"
        token = await self._session.new_token(is_probe=True) if is_web_identity else ""
        await self._session.assume(token=token, external_id=external_id)

    @contextmanager
    def reporting(self, report: Callable[[str], None]) -> Generator[None]:
        """Tell `report` about each repetition of the calls that this task makes inside."""
        token = _report.set(report)
        try:
            yield
        finally:
            _report.reset(token)

    def close(self) -> None:
        """Forget the session. A call that still runs in a thread is not waited for."""
        self._session.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _call(self, service: str, operation: str, arguments: dict[str, Any]) -> Answer:
        try:
            return getattr(self._session.clients.get(service), operation)(**arguments)
        except Exception as error:  # the library has dozens of classes for a call that failed
            raise translated(error, service, operation) from None

    def _count(self, action: str) -> None:
        self.requests[action] += 1

    def _say(self, words: str) -> None:
        if (report := _report.get()) is not None:
            report(words)
        else:
            log.warning("%s", words)

    def __repr__(self) -> str:
        return f"<AwsApi of {self.account.role_arn}>"
