"""Requests to stores over HTTP, bounded in time and size. What a store answers is repeated in no error, unless the caller does so."""

import ssl
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3 import exceptions

from terracrew.client import transport
from terracrew.errors import ForeignAnswer, Invalid, Unavailable
from terracrew.settings.external.stores.contract import ReadDeadline

MAX_ANSWER_BYTES = 1024 * 1024
_CHUNK_BYTES = 64 * 1024


class StoreAnswer(NamedTuple):
    status: int
    content: Any
    """The JSON of the answer; None if there is none."""


class StoreConnection:
    """One server that is asked by HTTP. A redirect is not followed, so that credentials are sent to no other server."""

    def __init__(self, url: str, name: str, deadline: ReadDeadline, ca_file: str | None = None) -> None:
        self._url, self._name, self._deadline = url.rstrip("/"), name, deadline
        self._pool: urllib3.PoolManager = transport.pool(url, tls=_context(ca_file) if ca_file else None)

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: dict[str, str] | None = None,
        json: Any = None,
        form: dict[str, str] | None = None,
    ) -> StoreAnswer:
        status, body = self._exchange(method, path, dict(headers or {}), json, form)
        if 300 <= status < 400:
            raise ForeignAnswer(
                f"{self._name} at {self._url} answered with a redirect: give the address that it redirects to"
            )
        content: Any = None
        is_json = True
        try:
            content = msgspec.json.decode(body) if body else None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            is_json = False  # the error holds a part of the answer, so it ends here
        if not is_json and status < 300:
            raise ForeignAnswer(f"what answers at {self._url} is not {self._name}: its answer is not JSON")
        return StoreAnswer(status, content)

    def _exchange(
        self, method: str, path: str, headers: dict[str, str], json: Any, form: dict[str, str] | None
    ) -> tuple[int, bytes]:
        body = None
        if json is not None:
            body, headers["Content-Type"] = msgspec.json.encode(json), "application/json"
        elif form is not None:
            body, headers["Content-Type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
        reason = ""
        try:
            response = self._pool.request(
                method,
                self._url + path,
                body=body,
                headers=headers,
                timeout=self._deadline.seconds_left,
                retries=False,
                preload_content=False,
            )
            content = b""
            with response:
                for chunk in response.stream(_CHUNK_BYTES):
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        raise ForeignAnswer(f"the answer of {self._name} at {self._url} is longer than 1 MiB")
            return response.status, content
        except (exceptions.HTTPError, OSError) as error:
            reason = _words(error)
        except ValueError:
            reason = "a credential for it has a character that no header may have"  # the error itself repeats it
        raise Unavailable(f"{self._name} at {self._url} cannot be reached: {reason}")


def _context(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError):
        raise Invalid(f"{ca_file} cannot be read as certificates in PEM") from None


def _words(error: Exception) -> str:
    """Say why there is no answer. The text of the library's error is not used, because it may have a part of the request."""
    causes = [error, *(each for each in error.args if isinstance(each, Exception)), error.__cause__, error.__context__]
    if any(isinstance(each, exceptions.NameResolutionError) for each in causes):
        return "its name is not known"
    for each in causes:
        if isinstance(each, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted: {each.verify_message}"
        if isinstance(each, exceptions.SSLError | ssl.SSLError):
            return "it does not speak TLS, or another version of it"
        if isinstance(each, OSError) and each.strerror:
            return each.strerror.lower()
    if any(isinstance(each, exceptions.TimeoutError | TimeoutError) for each in causes):
        return "it did not answer in time"
    return "the connection was broken"
