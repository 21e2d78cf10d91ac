"""The API of ECS, called in threads, and which of its answers count.

An API that does not answer, throttles, or does not accept the runner's credentials says nothing about tasks.
"""

import asyncio
import importlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

from terracrew.backoff import Backoff
from terracrew.errors import Invalid, TerracrewError
from terracrew.runner.dispatch.ecs.settings import EcsSettings

log = logging.getLogger(__name__)

Answer = dict[str, Any]
_MAX_CALLS = 8
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 30.0
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 30.0
_MAX_WORDS_CHARACTERS = 300
_TEMPORARY_CODES = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "RequestExpired",
        "RequestLimitExceeded",
        "ServerException",
        "SignatureDoesNotMatch",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "UnrecognizedClientException",
    }
)
"""Errors that a later call may not have. Credentials are renewed by whoever gave them to this machine."""


class EcsRefused(TerracrewError):
    """ECS answered that it does not do what it was asked for."""

    code = "ecs_refused"


class EcsSilent(TerracrewError):
    """There was no answer that says anything about tasks."""

    code = "ecs_silent"


class EcsApi:
    def __init__(self, chosen: EcsSettings) -> None:
        if find_spec("boto3") is None:
            raise Invalid("the dispatcher `ecs` needs boto3: install terracrew[aws]")
        self._settings = chosen
        self._threads = ThreadPoolExecutor(_MAX_CALLS, "ecs")
        self._client: Any = None

    async def call(self, operation: str, **arguments: Any) -> Answer:
        """Make one call for the cluster. Raises EcsRefused or EcsSilent."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._call, operation, arguments)

    async def ask(self, operation: str, max_seconds: float = float("inf"), **arguments: Any) -> Answer:
        """Call until there is an answer. Raises EcsRefused, or EcsSilent after this time."""
        delays, is_reported, until = (
            Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS),
            False,
            time.monotonic() + max_seconds,
        )
        while True:
            try:
                return await self.call(operation, **arguments)
            except EcsSilent as error:
                pause = delays.next()
                if time.monotonic() + pause > until:
                    raise
                if not is_reported:
                    log.warning("ECS does not answer, and is asked again: %s", error.message)
                    is_reported = True
            await asyncio.sleep(pause)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _call(self, operation: str, arguments: dict[str, Any]) -> Answer:
        try:
            if self._client is None:
                self._client = self._connect()
            return getattr(self._client, operation)(**arguments)
        except Exception as error:  # the library has dozens of classes for a call that failed
            raise translated(error) from None

    def _connect(self) -> Any:
        boto3: Any = importlib.import_module("boto3")
        config: Any = importlib.import_module("botocore.config")
        limits = config.Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 2},
            max_pool_connections=_MAX_CALLS,
        )
        return boto3.session.Session().client(
            "ecs",
            region_name=self._settings.region,
            endpoint_url=self._settings.endpoint_url or None,
            config=limits,
        )


def translated(error: Exception) -> TerracrewError:
    """Return an error of ours, with the words of ECS."""
    response: Any = getattr(error, "response", None)
    if not isinstance(response, dict):
        return EcsSilent(f"{type(error).__name__}: {error}"[:_MAX_WORDS_CHARACTERS])
    answer: dict[str, Any] = response  # pyright: ignore[reportUnknownVariableType]
    code = str(answer.get("Error", {}).get("Code", ""))
    words = f"{code}: {answer.get('Error', {}).get('Message', '')}"[:_MAX_WORDS_CHARACTERS]
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if status >= 500 or status in (0, 407, 408, 429) or code in _TEMPORARY_CODES:
        return EcsSilent(words)
    return EcsRefused(words)
