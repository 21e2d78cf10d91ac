"""Requests to a registry and to the servers that it names: https only, with bounds for time, size and redirects."""

import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import urllib3

from terracrew.client import transport
from terracrew.errors import Forbidden, Invalid, NotFound, TooLarge, Unavailable
from terracrew.executor.sources.contract import Deadline

MAX_REDIRECTS = 5
MAX_DOCUMENT_BYTES = 16 << 20
MAX_SHOWN_CHARACTERS = 64
_CHUNK_BYTES = 1 << 16
_CONNECT_SECONDS = 20.0


def shown(url: str) -> str:
    """Return an address as messages have it: without its query and without long parts of its path, which can be credentials."""
    parts = urlsplit(url)
    path = "/".join(each if len(each) <= MAX_SHOWN_CHARACTERS else "…" for each in parts.path.split("/"))
    return f"{parts.scheme}://{parts.netloc}{path}"[:300]


class WebAnswer(NamedTuple):
    url: str
    """The address that answered, after redirects."""
    headers: Mapping[str, str]
    body: bytes


class RegistryHttp:
    """What one attempt uses to talk to other machines."""

    def __init__(
        self,
        environment: Mapping[str, str],
        variables: Mapping[str, str],
        deadline: Deadline,
        own_tokens: Mapping[str, str] | None = None,
    ) -> None:
        self._environment, self._variables, self._deadline = environment, variables, deadline
        self._own_tokens = own_tokens or {}
        self._tls = ssl.create_default_context(cafile=environment.get("SSL_CERT_FILE") or None)

    def get(self, url: str, *, most: int = MAX_DOCUMENT_BYTES, accept: str = "application/json") -> WebAnswer:
        """Return the answer to a request. The token for a host goes to this host only, also after a redirect."""
        for _ in range(MAX_REDIRECTS + 1):
            parts = urlsplit(url)
            if parts.scheme != "https" or not parts.hostname:
                raise Invalid(f"{shown(url)!r} is not an https address, so it is not used")
            if parts.username or parts.password:
                raise Invalid(f"the address of {parts.hostname} has a name or a password in it, so it is not used")
            answer, location = self._once(url, parts.netloc, most, accept)
            if answer is not None:
                return answer
            url = urljoin(url, location)
        raise Invalid(f"{shown(url)!r} is the end of more than {MAX_REDIRECTS} redirects, so it is not used")

    def _token(self, host: str) -> str:
        """Return the token for a host: that of the module, that of the runner, or that of the job for its own server; else ''."""
        name, exactly = token_variable(host), host.lower().removesuffix(":443")
        found = self._variables.get(name) or self._environment.get(name) or self._own_tokens.get(exactly) or ""
        return found.strip()

    def _once(self, url: str, host: str, most: int, accept: str) -> tuple[WebAnswer | None, str]:
        headers = {"Accept": accept, "User-Agent": "terracrew"}
        if token := self._token(host):
            headers["Authorization"] = f"Bearer {token}"
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=self._deadline.limits.silence_seconds)
        what = f"asking {host}"
        try:
            with transport.pool(url, tls=self._tls) as pool:
                answer = pool.request(
                    "GET", url, headers=headers, timeout=timeout, retries=False, redirect=False, preload_content=False
                )
                body = bytearray()
                for chunk in answer.stream(_CHUNK_BYTES, decode_content=False):
                    self._deadline.check(what)
                    body += chunk
                    if len(body) > most:
                        raise TooLarge(f"{host} sent more than {most:,} bytes for {shown(url)}")
        except urllib3.exceptions.SSLError as error:
            raise Forbidden(f"the certificate of {host} is not trusted: {error}") from error
        except urllib3.exceptions.HTTPError as error:
            # A connection that was refused is also a TimeoutError for this library.
            is_late = isinstance(error, urllib3.exceptions.TimeoutError)
            if is_late and not isinstance(error, urllib3.exceptions.NewConnectionError):
                raise Unavailable(f"{host} did not answer in time") from error
            raise Unavailable(f"{host} cannot be reached: {error}") from error
        if answer.status in (301, 302, 303, 307, 308) and (location := answer.headers.get("Location")):
            return None, location
        _check_status(answer.status, host, url)
        return WebAnswer(url, {name.lower(): text for name, text in answer.headers.items()}, bytes(body)), ""


def token_variable(host: str) -> str:
    """Return the environment variable that has the token for a host, spelled as Terraform expects."""
    name = host.rpartition(":")[0] if ":" in host else host
    return f"TF_TOKEN_{name.encode('idna').decode().replace('-', '__').replace('.', '_')}"


def _check_status(status: int, host: str, url: str) -> None:
    if status in (401, 403):
        raise Forbidden(
            f"{host} does not accept the credentials of this job for {shown(url)} (HTTP {status}): set the secret "
            f"{token_variable(host)} as an environment variable of the module or of a group above it, or of the runner"
        )
    if status == 404:
        raise NotFound(f"{host} has nothing at {shown(url)}")
    if status not in (200, 204):
        is_transient = status >= 500 or status in (408, 425, 429)
        raise (Unavailable if is_transient else Invalid)(f"{host} answered with HTTP {status} for {shown(url)}")
