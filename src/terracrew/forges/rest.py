"""Asks the REST API of a forge, and turns whatever is answered into a value of the wanted type or into an error that says what is wrong."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from terracrew.forges import values
from terracrew.forges.contract import ForgeAnswer, ForgeAway, ForgeRefused, ForgeRequest, Send

T = TypeVar("T")
AWAY_SECONDS = 60.0
"""How long a forge is left alone that says that its limits are used up, and not for how long."""
MAX_AWAY_SECONDS = 3600.0
MAX_PAGES = 50
_MAX_QUOTED_CHARACTERS = 300


class _Problem(msgspec.Struct):
    message: Any = ""
    error: Any = ""


class Rest:
    """Sends requests to one API. `headers` returns what authenticates them."""

    def __init__(
        self,
        send: Send,
        api_url: str,
        headers: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
        remedy: str = "",
    ) -> None:
        """`remedy` says what to do about a token that is not valid."""
        self._send, self._api_url, self._headers, self._clock = send, api_url, headers, clock
        self._remedy = remedy

    def with_headers(self, headers: Mapping[str, str]) -> "Rest":
        """Return one that sends these headers, too."""
        return Rest(self._send, self._api_url, {**self._headers, **headers}, clock=self._clock, remedy=self._remedy)

    async def get(self, kind: type[T], path: str, **query: str | int) -> T:
        return decoded(kind, await self.ask("GET", path, query=query), path)

    async def pages(self, kind: type[T], path: str, size: int, **query: str | int) -> list[T]:
        """Return the items of all pages."""
        found: list[T] = []
        for number in range(1, MAX_PAGES + 1):
            page = await self.get(list[kind], path, **query, **self.page(number, size))
            found += page
            if len(page) < size:
                return found
        raise too_many(path, MAX_PAGES * size)

    @staticmethod
    def page(number: int, size: int) -> dict[str, int]:
        return {"page": number, "per_page": size, "limit": size}

    async def send(self, kind: type[T], method: str, path: str, body: Mapping[str, Any]) -> T:
        return decoded(kind, await self.ask(method, path, body=body), path)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ForgeAnswer:
        """Send a request, and return the answer if it is a good one, or that nothing has changed (304)."""
        answer = await self.probe(method, path, query=query, body=body, headers=headers)
        if answer.status == 304 or 200 <= answer.status < 300:
            return answer
        raise refusal(answer, path, self._clock(), self._remedy)

    async def probe(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ForgeAnswer:
        """Send a request, and return whatever is answered, unless the forge is away or asks to wait."""
        url = f"{self._api_url}{path}" + (f"?{urlencode(query)}" if query else "")
        sent = {**self._headers, **(headers or {})}
        content = b""
        if body is not None:
            content = msgspec.json.encode(body)
            sent["Content-Type"] = "application/json"
        answer = await self._send(ForgeRequest(method, url, sent, content))
        if away := wait(answer, self._clock()):
            raise away
        return answer


def decoded(kind: type[T], answer: ForgeAnswer, path: str) -> T:
    """Return the body of an answer as this type. Raises ForgeRefused if it is something else."""
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.ValidationError as error:
        raise ForgeRefused(f"the forge has answered something unexpected to {_asked(path)}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ForgeRefused(
            f"the forge has answered something to {_asked(path)} that is not JSON, perhaps a page of a proxy: "
            "check the address of the connection",
            answer.status,
        ) from None


def wait(answer: ForgeAnswer, now: float) -> ForgeAway | None:
    """Return that the forge is away, or asks to wait, and for how long; None if the answer is one."""
    after = _seconds(answer.headers.get("retry-after"), now)
    is_used_up = answer.headers.get("x-ratelimit-remaining", answer.headers.get("ratelimit-remaining")) == "0"
    is_secondary = answer.status == 403 and ("retry-after" in answer.headers or b"secondary rate limit" in answer.body)
    if answer.status == 429 or is_secondary or (answer.status == 403 and is_used_up):
        reset = answer.headers.get("x-ratelimit-reset", answer.headers.get("ratelimit-reset"))
        until = after or _seconds(reset, now) or AWAY_SECONDS
        return ForgeAway(f"the forge asks to wait for {until:.0f} seconds: its limit of requests is used up", until)
    if answer.status >= 500:
        return ForgeAway(f"the forge has answered with its own error {answer.status}{_reason(answer)}", after)
    return None


def refusal(answer: ForgeAnswer, path: str, now: float, remedy: str = "") -> Exception:
    """Return the error that an answer without a result stands for."""
    if away := wait(answer, now):
        return away
    asked, reason = _asked(path), _reason(answer)
    if 300 <= answer.status < 400:
        words = (
            f"the forge has redirected {asked} to another address, which is not followed: check the address of the "
            "connection, and the name of the repository"
        )
    elif answer.status == 401:
        words = f"the forge does not accept the token{reason}{remedy}"
    elif answer.status == 403:
        words = f"the forge does not allow {asked}{reason}"
    elif answer.status == 404:
        words = f"the forge has nothing at {path}, or the token may not see it"
    else:
        words = f"the forge has refused {asked} with status {answer.status}{reason}"
    return ForgeRefused(words, answer.status)


def too_many(path: str, count: int) -> ForgeRefused:
    return ForgeRefused(f"the forge has more than {count} items at {path}, which is more than this server reads")


def _asked(path: str) -> str:
    return f"the request {path}"


def _reason(answer: ForgeAnswer) -> str:
    """Return what the forge says of its refusal, as the end of a sentence."""
    try:
        problem = msgspec.json.decode(answer.body, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    said = problem.message or problem.error
    text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
    return f": {values.line(text, _MAX_QUOTED_CHARACTERS)}" if text else ""


def _seconds(text: str | None, now: float) -> float:
    """Return for how long to wait, from a number of seconds or from a time; 0 if it is neither."""
    try:
        number = float(text or "")
    except ValueError:
        return 0.0
    if not math.isfinite(number):
        return 0.0
    seconds = number - now if number > 1e9 else number
    return min(max(seconds, 0.0), MAX_AWAY_SECONDS)
