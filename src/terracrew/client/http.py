"""The public API over HTTP, for the command line, the demo and scripts. Problems are raised as the server's own error classes."""

import contextlib
import hashlib
import io
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Literal, Protocol
from urllib.parse import urlencode

import msgspec
import urllib3
from typing_extensions import TypeVar
from urllib3.exceptions import HTTPError, NewConnectionError, SSLError

from terracrew import __version__, errors
from terracrew.api.pages import Page
from terracrew.backoff import Backoff
from terracrew.client import address, transport
from terracrew.client.problems import foreign, from_response
from terracrew.client.sse import OPEN, Event, Parser
from terracrew.protocol.transfers import HEADER, PART_BYTES, UploadStaged, UploadWanted

T = TypeVar("T", default=Any)
P = TypeVar("P", bound=Page[Any])
Token = str | Callable[[], str] | None
Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]

PREFIX = "/api/v1"
ORGANIZATION_HEADER = "Terracrew-Organization"
_TRIES = 3
_MAX_CONNECTIONS = 4
_FIRST_DELAY_SECONDS = 0.2
_MAX_DELAY_SECONDS = 5.0
_MAX_WAIT_SECONDS = 10.0
"""If the server asks for a longer wait, the error is raised instead."""
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_TRANSIENT_ERRORS = (errors.Unavailable, errors.RateLimited, errors.Unreachable)
_READ_BYTES = 1 << 16
_ANY: Any = Any


def no_server(url: str) -> errors.Unreachable:
    return errors.Unreachable(
        f"no server answers at {url}", hint="start one with `terracrew up`, or name another with --url or TERRACREW_URL"
    )


class ByteSink(Protocol):
    """Something that takes the pieces of a download."""

    def write(self, piece: bytes, /) -> object: ...


class Api:
    """A server's public API. Paths start below /api/v1; bodies are anything that msgspec can encode."""

    def __init__(
        self, base_url: str, token: Token = None, *, timeout: float = 30, organization: str | None = None
    ) -> None:
        """`organization` is the name or id of the one that requests are about; the server's default is the caller's own."""
        self.base_url = address.checked(base_url).removesuffix(PREFIX)
        self._token = token
        if organization and not (organization.isascii() and organization.isprintable()):
            raise errors.Invalid(f"{organization!r} cannot be the name of an organization")
        self._organization = {ORGANIZATION_HEADER: organization} if organization else {}
        self._timeout = timeout
        self._pool = transport.pool(self.base_url, connections=_MAX_CONNECTIONS)
        self.max_outage_seconds = 0.0
        """How long a repeatable request is retried while the server or its database is unavailable. A few tries are always made."""
        self.on_wait: Callable[[errors.TerracrewError], None] = lambda _: None
        """Called with the error that a request waits for."""

    def close(self) -> None:
        """Close the connections to the server."""
        self._pool.clear()

    def get(self, path: str, kind: type[T] = _ANY, /, **query: Any) -> T:
        return self._call("GET", _with_query(path, query), kind)

    def post(self, path: str, body: Any = None, kind: type[T] = _ANY, *, headers: Mapping[str, str] | None = None) -> T:
        return self._call("POST", path, kind, *_json(body, headers))

    def patch(self, path: str, body: Any, kind: type[T] = _ANY) -> T:
        return self._call("PATCH", path, kind, *_json(body, None))

    def delete(self, path: str, body: Any = None, kind: type[T] = _ANY) -> T:
        return self._call("DELETE", path, kind, *_json(body, None))

    def put(self, path: str, data: bytes | BinaryIO, kind: type[T] = _ANY) -> T:
        """Put the content of a file."""
        return self._call("PUT", path, kind, data, {"Content-Type": "application/octet-stream"})

    def replace(self, path: str, body: Any, kind: type[T] = _ANY) -> T:
        """Put an object in place of the one that is there."""
        return self._call("PUT", path, kind, *_json(body, None))

    def upload(self, path: str, data: bytes | BinaryIO, content_type: str, kind: type[T] = _ANY) -> T:
        """Post a file as the body. The request is never repeated, because each one creates a new object."""
        return self._call("POST", path, kind, data, {"Content-Type": content_type})

    def upload_in_parts(
        self,
        path: str,
        data: bytes,
        content_type: str,
        kind: type[T] = _ANY,
        *,
        target: str,
        progress: Callable[[int], None] = lambda _: None,
    ) -> T:
        """Post a body of any size through proxies that limit the size of requests. `progress` gets the bytes that have arrived.

        A small body is posted at once. If the server cannot store it at this moment, it is sent as a part, which can be repeated.
        """
        if len(data) <= PART_BYTES:
            try:
                return self.upload(path, data, content_type, kind)
            except errors.Unavailable as error:
                self.on_wait(error)
        wanted = UploadWanted(target, hashlib.sha256(data).hexdigest(), len(data))
        for tries_left in reversed(range(_TRIES)):
            try:
                staged = self.replace("/uploads", wanted, UploadStaged)
                self._send_parts(staged, data, progress)
                return self._call("POST", path, kind, b"", {"Content-Type": content_type, HEADER: staged.id})
            except errors.Incomplete:  # the server has removed parts in the meantime
                if not tries_left:
                    raise
        raise AssertionError  # the last try has returned or raised

    def _send_parts(self, staged: UploadStaged, data: bytes, progress: Callable[[int], None]) -> None:
        size = staged.part_bytes
        arrived = len(data) - sum(len(data[index * size : (index + 1) * size]) for index in staged.missing)
        progress(arrived)
        for index in staged.missing:
            part = data[index * size : (index + 1) * size]
            self.put(f"/uploads/{staged.id}/{index}", part)
            arrived += len(part)
            progress(arrived)

    def list(self, path: str, kind: type[T] = _ANY, /, **query: Any) -> Iterator[T]:
        """Yield every item of a list, page after page."""
        for page in self.pages(path, Page[kind], **query):
            yield from page.items

    def pages(self, path: str, kind: type[P], /, **query: Any) -> Iterator[P]:
        """Yield every page of a list."""
        after = None
        while True:
            page = self.get(path, kind, **query, after=after)
            yield page
            after = page.next
            if not after:
                return

    def download(self, path: str, fileobj: ByteSink, /, **query: Any) -> None:
        """Download the path into a file, piece by piece. An answer that is too short raises an error."""
        response = self._open(_with_query(path, query))
        try:
            while piece := response.read(_READ_BYTES):
                fileobj.write(piece)
        except HTTPError as error:
            raise errors.Unreachable(
                f"the connection to {self.base_url} broke in the middle of {path}: try again"
            ) from error
        finally:
            response.close()

    def events(
        self, path: str, last_id: str | None = None, *, max_outage_seconds: float = 300, quiet: float = 60
    ) -> Iterator[Event]:
        """Yield the events of a stream for as long as the caller reads them.

        The stream is resumed after its last event whenever it breaks, or when nothing has arrived for `quiet` seconds, not even
        a comment that keeps the connection alive. After `max_outage_seconds` without a server, this gives up.
        """
        parser = Parser(last_id or "")
        answered_at, delays = time.monotonic(), Backoff(_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS)
        while True:
            try:
                for event in self._stream(path, parser, quiet):
                    answered_at = time.monotonic()
                    delays.reset()
                    yield event
                answered_at = time.monotonic()  # it was open until now, maybe without an event for long
            except _TRANSIENT_ERRORS as error:
                if time.monotonic() - answered_at > max_outage_seconds:
                    raise
                self.on_wait(error)
            time.sleep(delays.next())

    def is_ready(self) -> bool:
        """Return whether the server says that it is ready. This makes one request, without a token."""
        try:
            return self._pool.request("GET", f"{self.base_url}/readyz", timeout=2, retries=False).status == 200
        except (HTTPError, OSError):
            return False

    def _stream(self, path: str, parser: Parser, quiet: float) -> Iterator[Event]:
        parser.restart()
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
        if parser.last_id:
            headers["Last-Event-ID"] = parser.last_id
        response = self._open(path, headers, read_timeout=quiet)
        try:
            yield OPEN
            while chunk := response.read1(_READ_BYTES):
                yield from parser.feed(chunk)
        except HTTPError:
            return  # broken off or silent: the caller resumes it
        finally:
            response.close()

    def _call(
        self,
        method: Method,
        path: str,
        kind: type[T],
        body: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        once = method not in _REPEATABLE and not {"Idempotency-Key", HEADER} & (headers or {}).keys()
        rewind = _rewinder(body)
        if body is not None and not isinstance(body, bytes) and rewind:
            headers = {"Content-Length": str(_remaining(body)), **(headers or {})}
        tried, began, delays = 0, time.monotonic(), Backoff(2 * _FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS)
        while True:
            try:
                response = self._send(method, path, body, headers)
                break
            except _TRANSIENT_ERRORS as error:
                tried += 1
                pause = max(delays.next(), float(error.details.get("retry_after", 0)))
                is_tried_out = tried >= _TRIES and time.monotonic() + pause - began > self.max_outage_seconds
                if once or rewind is None or is_tried_out or pause > _MAX_WAIT_SECONDS:
                    raise
                self.on_wait(error)
                time.sleep(pause)
                rewind()
            except errors.NotFound:
                if method == "DELETE" and tried:
                    return _decoded(b"null", kind)  # an earlier try did it, and only its answer was lost
                raise
        if not response.data or "json" in response.headers.get("Content-Type", ""):
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                return _decoded(response.data or b"null", kind)
        raise foreign(response.status, response.headers, f"{method} {self.base_url}{PREFIX}{path}")

    def _open(
        self, path: str, headers: Mapping[str, str] | None = None, *, read_timeout: float | None = None
    ) -> urllib3.BaseHTTPResponse:
        return self._send("GET", path, None, headers, preload=False, read_timeout=read_timeout)

    def _send(
        self,
        method: Method,
        path: str,
        body: bytes | BinaryIO | None,
        headers: Mapping[str, str] | None,
        *,
        preload: bool = True,
        read_timeout: float | None = None,
    ) -> urllib3.BaseHTTPResponse:
        try:
            response = self._pool.request(
                method,
                f"{self.base_url}{PREFIX}{path}",
                body=body,
                headers={
                    "User-Agent": f"terracrew/{__version__}",
                    **self._authorization(),
                    **self._organization,
                    **(headers or {}),
                },
                timeout=urllib3.Timeout(connect=min(10, self._timeout), read=read_timeout or self._timeout),
                retries=False,  # this also disables redirects, so that a token is sent to no other server
                preload_content=preload,
            )
        except (HTTPError, OSError) as error:
            raise self._unreachable(error, method) from error
        if response.status < 300:
            return response
        try:
            content = response.data if preload else response.read(_READ_BYTES)
            raise from_response(response.status, response.headers, content, f"{method} {self.base_url}{PREFIX}{path}")
        except HTTPError as error:
            raise self._unreachable(error, method) from error
        finally:
            response.close()

    def _authorization(self) -> dict[str, str]:
        token = (self._token() if callable(self._token) else self._token or "").strip()
        if not token:
            return {}
        if not token.isascii() or not token.isprintable() or " " in token:
            # This is checked here, because the HTTP library would quote the whole header.
            raise errors.Unauthenticated("the token contains characters that a token cannot have: paste it again")
        return {"Authorization": f"Bearer {token}"}

    def _unreachable(self, error: Exception, method: Method) -> errors.Unreachable:
        if isinstance(error, SSLError):
            return errors.Unreachable(f"{self.base_url} has a certificate that this machine does not trust: {error}")
        if isinstance(error, NewConnectionError):
            return no_server(self.base_url)
        doubt = "" if method == "GET" else "; the request may have been carried out nevertheless"
        return errors.Unreachable(f"{self.base_url} did not answer a {method} ({type(error).__name__}){doubt}")


def _decoded(body: bytes, kind: type[T]) -> T:
    """Return an answer as the struct that the API describes. What a newer server adds is passed over."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise errors.Incompatible(
            f"the server's answer cannot be read ({error}): install the version of the server here"
        ) from error


def _rewinder(body: bytes | BinaryIO | None) -> Callable[[], object] | None:
    """Return a function that makes a body ready to be sent again, or None for a pipe, which can be read only once."""
    if body is None or isinstance(body, bytes):
        return lambda: None
    if not body.seekable():
        return None
    start = body.tell()
    return lambda: body.seek(start)


def _remaining(body: BinaryIO) -> int:
    start, end = body.tell(), body.seek(0, io.SEEK_END)
    body.seek(start)
    return end - start


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _json(body: Any, headers: Mapping[str, str] | None) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, dict(headers or {})
    return msgspec.json.encode(body), {"Content-Type": "application/json", **(headers or {})}
