"""Reads what HCP Terraform and hosts with the same interface have: JSON:API, page after page, and states from other hosts.

The token is sent to the host that a person named and to no other, also where that host redirects. No message has the query of an
address in it, nor a path beside the interface, because addresses of states are credentials themselves.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urljoin, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from terracrew import __version__, errors
from terracrew.backoff import Backoff
from terracrew.cli.commands.importing.tfe_tokens import HostToken
from terracrew.client import address, transport
from terracrew.protocol.events import MAX_STATE_BYTES

MAX_DOCUMENT_BYTES = 32 << 20
MAX_PAGES = 1_000
PAGE_ITEMS = 100
MAX_REDIRECTS = 5
MAX_TRIES = 5
MAX_LIMITED_TRIES = 30
"""How often a request is sent again that the host refuses because there are too many."""
MAX_WAIT_SECONDS = 120.0
"""If the host asks for a longer wait, the import ends; it can be continued."""
_TIMEOUT_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
_READ_BYTES = 1 << 16
_DEFAULT_PATH = "/api/v2/"
T = TypeVar("T")
_REDIRECTS = (301, 302, 303, 307, 308)


class Linked(msgspec.Struct, frozen=True):
    """What a relationship leads to."""

    type: str = ""
    id: str = ""


class Links(msgspec.Struct, frozen=True):
    data: Linked | list[Linked] | None = None

    @property
    def ids(self) -> list[str]:
        if self.data is None:
            return []
        return [each.id for each in (self.data if isinstance(self.data, list) else [self.data])]


class ReadResource(msgspec.Struct, frozen=True):
    """A resource of JSON:API as it was read."""

    id: str = ""
    type: str = ""
    attributes: dict[str, Any] = {}
    relationships: dict[str, Links] = {}

    def related(self, name: str) -> list[str]:
        """Return the ids to which a relationship leads."""
        return self.relationships[name].ids if name in self.relationships else []


class _Pagination(msgspec.Struct, rename="kebab"):
    next_page: int | None = None


class _Meta(msgspec.Struct):
    pagination: _Pagination | None = None


class _ReadDocument(msgspec.Struct):
    data: ReadResource | list[ReadResource] | None = None
    meta: _Meta | None = None


class _DiscoveredServices(msgspec.Struct):
    tfe_v2: str | dict[str, Any] = msgspec.field(default="", name="tfe.v2")
    tfe_v2_1: str | dict[str, Any] = msgspec.field(default="", name="tfe.v2.1")
    tfe_v2_2: str | dict[str, Any] = msgspec.field(default="", name="tfe.v2.2")


_documents = msgspec.json.Decoder(_ReadDocument)  # made before there are threads, in which msgspec must not make it
_discovered = msgspec.json.Decoder(_DiscoveredServices)


class TfeClient:
    """A host that a person named, and their token for it. Use `discover` before anything else."""

    def __init__(
        self,
        url: str,
        token: HostToken,
        *,
        sleep: Callable[[float], object] = time.sleep,
        on_wait: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.url = address.checked(url)
        self.host = urlsplit(self.url).netloc
        self._origin = _origin(self.url)
        self._token, self._sleep, self._on_wait = token, sleep, on_wait
        self._base = urljoin(self.url, _DEFAULT_PATH)
        self._pool = transport.pool(self.url, connections=8)
        self.is_terracrew = False
        """Whether the host is another server of Terracrew, whose names of workspaces are paths."""

    def discover(self) -> None:
        """Ask the host where its interface is."""
        content, _ = self._request("GET", urljoin(self.url, "/.well-known/terraform.json"), is_optional=True)
        found = _decoded(content, _discovered, self.host) if content else _DiscoveredServices()
        for path in (found.tfe_v2_2, found.tfe_v2_1, found.tfe_v2):
            if isinstance(path, str) and path:
                base = urljoin(self.url, path)
                if _origin(base) != self._origin:
                    raise errors.Invalid(
                        f"{self.host} says that its interface is at {urlsplit(base).netloc}, to which your token is not sent: name "
                        "that address with --url"
                    )
                self._base = base if base.endswith("/") else f"{base}/"
                break
        _, headers = self._request("GET", urljoin(self._base, "ping"), is_optional=True)
        self.is_terracrew = headers.get("TFP-AppName") == "Terracrew"

    def get(self, path: str, *, is_optional: bool = False, **query: Any) -> ReadResource | None:
        """Return one resource. With `is_optional`, None if the host has no such thing."""
        content = self._read(path, query, is_optional)
        found = _decoded(content, _documents, self.host).data if content else None
        return found if isinstance(found, ReadResource) else None

    def pages(self, path: str, *, is_optional: bool = False, **query: Any) -> Iterator[list[ReadResource]]:
        """Yield the pages of a list. With `is_optional`, there are none if the host does not have the list."""
        number = 1
        for _ in range(MAX_PAGES):
            content = self._read(path, query | {"page[size]": PAGE_ITEMS, "page[number]": number}, is_optional)
            if not content:
                return
            found = _decoded(content, _documents, self.host)
            yield found.data if isinstance(found.data, list) else []
            following = found.meta.pagination.next_page if found.meta is not None and found.meta.pagination else None
            if following is None or following <= number:
                return
            number = following
        raise errors.Invalid(f"{self.host} has more than {MAX_PAGES:,} pages of {path}: import a part with --workspace")

    def list(self, path: str, **query: Any) -> Iterator[ReadResource]:
        for page in self.pages(path, **query):
            yield from page

    def download(self, url: str) -> bytes:
        """Return the state at an address that the host gave, which may be on another host."""
        content, _ = self._request("GET", urljoin(self._base, url), max_bytes=MAX_STATE_BYTES)
        return content

    def lock(self, workspace_id: str, reason: str) -> bool:
        """Lock a workspace at the source; return False if somebody had locked it already."""
        url = urljoin(self._base, f"workspaces/{quote(workspace_id, safe='')}/actions/lock")
        try:
            self._request("POST", url, body=msgspec.json.encode({"reason": reason}))
        except errors.Conflict:
            return False
        return True

    def _read(self, path: str, query: Mapping[str, Any], is_optional: bool) -> bytes:
        url = urljoin(self._base, path) + (f"?{urlencode(query)}" if query else "")
        return self._request("GET", url, is_optional=is_optional)[0]

    def _request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        is_optional: bool = False,
        max_bytes: int = MAX_DOCUMENT_BYTES,
    ) -> tuple[bytes, Mapping[str, str]]:
        """Return the body and the headers of an answer; an empty body if there is nothing and that is allowed."""
        delays, tries, limited = Backoff(0.5, 20.0), 0, 0
        while True:
            try:
                return self._follow(method, url, body, max_bytes)
            except errors.NotFound:
                if is_optional:
                    return b"", {}
                raise
            except errors.RateLimited as error:
                limited += 1
                wait = float(error.details.get("retry_after", 0)) + delays.next()
                if limited > MAX_LIMITED_TRIES or wait > MAX_WAIT_SECONDS:
                    raise
            except (errors.Unavailable, errors.Unreachable) as error:
                tries += 1
                if method != "GET" or tries >= MAX_TRIES or isinstance(error, errors.ForeignAnswer):
                    raise
                wait = delays.next()
            self._on_wait(f"waiting for {self.host}")
            self._sleep(wait)

    def _follow(self, method: str, url: str, body: bytes | None, max_bytes: int) -> tuple[bytes, Mapping[str, str]]:
        is_home = True
        for _ in range(MAX_REDIRECTS + 1):
            is_home = is_home and _origin(url) == self._origin  # what another host redirects to gets no token, either
            response = self._send(method, url, body, has_token=is_home)
            try:
                if response.status not in _REDIRECTS:
                    return self._answered(response, url, max_bytes)
                there = urljoin(url, response.headers.get("Location", ""))
            finally:
                response.close()  # also the connection, if something was not read
            if method != "GET":
                raise errors.Invalid(f"{self.host} redirects a request that changes something: name the right --url")
            url = there
        raise errors.Invalid(f"{self.host} redirects more than {MAX_REDIRECTS} times")

    def _send(self, method: str, url: str, body: bytes | None, *, has_token: bool) -> urllib3.BaseHTTPResponse:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise errors.Invalid(f"{self.host} names an address that cannot be requested")
        if self._origin[0] == "https" and parts.scheme != "https":
            raise errors.Invalid(f"{self.host} leads to an address without TLS, which is not followed")
        headers = {
            "User-Agent": f"terracrew/{__version__}",
            "Accept": "application/vnd.api+json, application/json, */*",
        }
        if body is not None:
            headers["Content-Type"] = "application/vnd.api+json"
        if has_token:
            headers["Authorization"] = f"Bearer {self._token.text}"
        try:
            return (self._pool if _origin(url) == self._origin else transport.pool(url)).request(
                method,
                url,
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_TIMEOUT_SECONDS),
                retries=False,  # redirects are followed here, without the token
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            # The error of the library has the whole address in it, which may be a credential.
            raise errors.Unreachable(f"{parts.netloc} does not answer: {_cause(error)}") from None

    def _answered(
        self, response: urllib3.BaseHTTPResponse, url: str, max_bytes: int
    ) -> tuple[bytes, Mapping[str, str]]:
        place = f"{urlsplit(url).netloc}{urlsplit(url).path if url.startswith(self._base) else ''}"
        try:
            content = _bounded(response, max_bytes if response.status < 300 else MAX_DOCUMENT_BYTES, place)
        except (HTTPError, OSError):
            raise errors.Unreachable(
                f"the connection to {urlsplit(url).netloc} broke in the middle of a download"
            ) from None
        if response.status < 300:
            return content, response.headers
        raise self._problem(response, place)

    def _problem(self, response: urllib3.BaseHTTPResponse, place: str) -> errors.TerracrewError:
        match response.status:
            case 401:
                return errors.Unauthenticated(
                    f"{place} does not accept the token from {self._token.origin}",
                    hint="it may have been revoked, or have expired",
                )
            case 403:
                return errors.Forbidden(f"the token from {self._token.origin} may not read {place}")
            case 404:
                return errors.NotFound(
                    f"there is nothing at {place}, or the token from {self._token.origin} may not see it"
                )
            case 409:
                return errors.Conflict(f"{place} answers with a conflict")
            case 429:
                return errors.RateLimited(
                    f"{self.host} has refused too many requests: try again later", retry_after=_wait(response.headers)
                )
            case status if status >= 500:
                return errors.Unavailable(f"{place} answers with status {status}: try again later")
            case status:
                return errors.Invalid(f"{place} answers with status {status}")


def _bounded(response: urllib3.BaseHTTPResponse, max_bytes: int, place: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := response.read(_READ_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise errors.Invalid(f"{place} answers with more than {max_bytes:,} bytes")
    return b"".join(pieces)


def _wait(headers: Mapping[str, str]) -> float:
    """Return how long the host asks to wait: a number of seconds, or a moment."""
    for name in ("Retry-After", "X-RateLimit-Reset"):
        text = headers.get(name, "")
        try:
            return max(0.0, min(float(text), 1e6))
        except ValueError:
            pass
        try:
            return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
        except (ValueError, TypeError):
            continue
    return 1.0


def _origin(url: str) -> tuple[str, str, int | None]:
    """Return what a token belongs to: scheme, host and port."""
    parts = urlsplit(url)
    try:
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        port = None
    return parts.scheme, (parts.hostname or "").lower(), port


def _cause(error: Exception) -> str:
    return type(error).__name__.removesuffix("Error")


def _decoded(content: bytes, decoder: "msgspec.json.Decoder[T]", host: str) -> T:
    try:
        return decoder.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise errors.Invalid(
            f"what {host} answers is not JSON:API: is it the address of HCP Terraform or a host like it?"
        ) from None
