"""One cluster as one identity sees it: every request ends, with an answer, a refusal or the words that there was none."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import aiohttp
import msgspec

from terracrew.backoff import Backoff
from terracrew.clouds.contract import CloudRefused, CloudSilent, SignToken
from terracrew.clouds.kubernetes import sign_in
from terracrew.clouds.model import KubernetesCluster
from terracrew.errors import TerracrewError
from terracrew.kubernetes_api import pod_words
from terracrew.kubernetes_api.api import SILENCE, ApiRefusal, ApiSilenceError, KubernetesApi

T = TypeVar("T")
MAX_RETRY_SECONDS = 60.0
"""A request is repeated for this long while nothing answers."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 8.0
_MAX_SIGN_IN_COUNT = 3
"""An API server that has just started, or that has just read the keys of an issuer, turns the first tokens away."""
_UNAUTHORIZED_CODE, _FORBIDDEN_CODE, _TOO_MANY_CODE = 401, 403, 429
_MAX_LOG_BYTES = 16 << 10


class ClusterClient:
    def __init__(self, cluster: KubernetesCluster, sign: SignToken) -> None:
        self.cluster, self._sign = cluster, sign
        self.namespace = cluster.namespace
        self._api: KubernetesApi | None = None

    async def close(self) -> None:
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def get(self, kind: type[T], path: str) -> T | None:
        """Return an object; None if the API server says that it does not exist."""
        try:
            return await self.ask(kind, "GET", path)
        except ClusterRefused as refusal:
            if refusal.http_status == 404:
                return None
            raise

    async def select(self, kind: type[T], path: str, selector: str = "") -> T:
        return await self.ask(kind, "GET", path, query={"labelSelector": selector} if selector else {})

    async def create(self, kind: type[T], path: str, body: Mapping[str, Any], *, is_trial: bool = False) -> T:
        """Make an object. It may exist already from a request whose answer was lost. A trial has the same answer and makes nothing."""
        return await self.ask(kind, "POST", path, body=body, query={"dryRun": "All"} if is_trial else {})

    async def delete(self, path: str, uid: str) -> bool:
        """Delete exactly this object. Returns False if it does not exist any more, or if another one has its name by now."""
        try:
            await self.ask(dict[str, Any], "DELETE", path, body={"preconditions": {"uid": uid}})
        except ClusterRefused as refusal:
            if refusal.http_status in (404, 409):
                return False
            raise
        return True

    async def lines(self, pod: str, container: str, count: int) -> list[str]:
        """Return the last lines that a pod has printed."""
        query = {"container": container, "tailLines": str(count), "limitBytes": str(_MAX_LOG_BYTES)}
        text = await self._repeated("GET", f"pods/{pod}/log", None, query, bytes)
        return text.decode(errors="replace").splitlines()[-count:]

    async def ask(
        self, kind: type[T], method: str, path: str, *, body: Any = None, query: Mapping[str, str] | None = None
    ) -> T:
        """Return the answer. Raises ClusterRefused, or CloudSilent if nothing answers for a minute."""

        def decode(answer: bytes) -> T:
            return msgspec.json.decode(answer, type=kind)

        return await self._repeated(method, path, body, query or {}, decode)

    @contextlib.asynccontextmanager
    async def as_other_subject(self) -> AsyncGenerator["ClusterClient"]:
        """Yield a client that signs in with a token of a subject that no identity has."""

        async def sign(_is_probe: bool = False, /) -> str:
            return await self._sign(True)

        client = ClusterClient(self.cluster, sign)
        try:
            yield client
        finally:
            await client.close()

    async def _repeated(
        self, method: str, path: str, body: Any, query: Mapping[str, str], decode: Callable[[bytes], T]
    ) -> T:
        if self._api is None:
            self._api = KubernetesApi(sign_in.open_access(self.cluster, self._sign), self.namespace)
        what = f"{method} {path.partition('?')[0]}"
        delays, until, sign_ins = (
            Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS),
            time.monotonic() + MAX_RETRY_SECONDS,
            0,
        )
        while True:
            try:
                return decode(await self._api.request(method, path, body, query))
            except ApiRefusal as refusal:
                raise ClusterRefused(what, refusal.status, refusal.reason, refusal.message) from None
            except aiohttp.ClientSSLError as error:
                raise CloudRefused(
                    f"{what}: {_words(error)}. The certificate of the API server does not fit the one in the cloud identity."
                ) from None
            except SILENCE as error:
                status = error.status if isinstance(error, ApiSilenceError) else 0
                sign_ins += status == _UNAUTHORIZED_CODE
                if status == _FORBIDDEN_CODE or sign_ins >= _MAX_SIGN_IN_COUNT:
                    raise ClusterRefused(what, status, "", str(error)) from None
                pause = delays.next()
                if time.monotonic() + pause > until:
                    silence = ClusterThrottled if status == _TOO_MANY_CODE else CloudSilent
                    words = f"{what}: {self._api.server} does not answer: {_words(error)}"
                    raise silence(pod_words.shorten(words)) from None
            await asyncio.sleep(pause)

    def __repr__(self) -> str:
        return f"<ClusterClient of {self.cluster.api_url or 'the own cluster'}, namespace {self.namespace}>"


def _words(error: BaseException) -> str:
    if isinstance(error, TerracrewError):
        return error.message
    return str(error) or type(error).__name__


Code = Literal["quota", "not_permitted", "identity", "missing", "other"]


class ClusterRefused(CloudRefused):
    """The API server answered that it does not do this."""

    def __init__(self, what: str, status: int, reason: str, said: str) -> None:
        self.http_status, self.reason = status, reason
        kind = _kind(status, said)
        self.refusal_code: Code = kind.code
        self.words, self.remedy = pod_words.shorten(f"{what}: {said}"), kind.remedy
        super().__init__(f"{self.words.rstrip('.')}. {self.remedy}" if self.remedy else self.words)

    @property
    def exists_already(self) -> bool:
        return self.http_status == 409 and self.reason == "AlreadyExists"


class ClusterThrottled(CloudSilent):
    """The API server answers that it was asked too often, and still did after repetitions."""


class _Kind(NamedTuple):
    status: int
    said: str
    """A pattern in the words of the API server."""
    code: Code
    remedy: str


_KINDS = (
    _Kind(
        401,
        "",
        "identity",
        "The API server does not accept the token. Compare its issuer, audience and authority with those on the page of the cloud "
        "identity: the API server must be able to read the issuer's keys over https.",
    ),
    _Kind(
        403,
        "exceeded quota",
        "quota",
        "Raise the ResourceQuota of the namespace, choose smaller instances, or allow fewer of them.",
    ),
    _Kind(
        403,
        r"(?i)serviceaccount \S+ not found|service account .* not found",
        "missing",
        "Deploy the runner again, or make the service account that the deployment names.",
    ),
    _Kind(
        403,
        "violates PodSecurity",
        "not_permitted",
        "The pods fit the standard `restricted`. Somebody has put a stricter rule on the namespace, or changes pods when they are made.",
    ),
    _Kind(403, "being terminated", "missing", "The namespace is being deleted. Choose another one."),
    _Kind(
        403,
        "",
        "not_permitted",
        "Give the identity the Role that its page shows; a test of the connection names what is missing.",
    ),
    _Kind(404, "(?i)namespaces? .* not found", "missing", "Make the namespace, or choose another one."),
)


def _kind(status: int, said: str) -> _Kind:
    found = (each for each in _KINDS if each.status == status and re.search(each.said, said))
    return next(found, _Kind(status, "", "other", ""))
