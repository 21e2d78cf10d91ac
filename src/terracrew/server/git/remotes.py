"""How git reaches a repository of another server: which addresses it may connect to, as whom, and what its errors mean.

A name is resolved once, by the server's client for configured addresses, which checks every address that it has. Git is told to connect
to these and follows no redirect, so an answer of the DNS that changes afterwards changes nothing.
"""

import base64
import contextlib
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from terracrew.errors import Forbidden, Invalid, NotFound, TerracrewError, Unavailable
from terracrew.server.git.program import GitProgramFailed
from terracrew.server.outgoing.answers import NotSent
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.source_rules import git as rules

_MAX_HEADER_CHARACTERS = 16_000
_KNOWN: tuple[tuple[str, type[TerracrewError], str], ...] = (
    (
        r"could not read (Username|Password)|Authentication failed|terminal prompts disabled|returned error: 40[13]|Access denied",
        Forbidden,
        "its server does not accept the credential of the connection for it",
    ),
    (
        r"returned error: 404|[Rr]epository .*not found|not found: did you run",
        NotFound,
        "there is no repository at this address, or the credential of the connection may not read it",
    ),
    (
        r"unable to update url base from redirection|returned error: 30[0-9]",
        Invalid,
        "it redirects: give its new address",
    ),
    (
        r"SSL certificate|certificate verif|server certificate",
        Forbidden,
        "the certificate of its server is not trusted",
    ),
    (
        r"Could not resolve host|Connection refused|Failed to connect|Network is unreachable|No route to host|timed out|"
        r"Couldn't connect",
        Unavailable,
        "its server cannot be reached",
    ),
    (r"returned error: (429|5[0-9]{2})", Unavailable, "its server is overloaded or has a fault"),
    (
        r"Operation too slow|transfer closed|early EOF|hung up|Connection (reset|closed) by|remote end closed|unexpected disconnect",
        Unavailable,
        "its server stopped sending",
    ),
    (r"transport '.*' not allowed", Invalid, "it leads to a protocol that is not allowed"),
    (r"object format|hash algorithm", Invalid, "it uses another kind of object ids (SHA-256), which is not supported"),
)


class RemoteLogin(msgspec.Struct, frozen=True):
    """What git sends in the header `Authorization`."""

    authorization: str

    @classmethod
    def basic(cls, username: str, password: str) -> "RemoteLogin":
        return cls("Basic " + base64.b64encode(f"{username}:{password}".encode()).decode())

    @property
    def secrets(self) -> list[str]:
        """What must not be shown, although a server could print it: the header, and the password in it."""
        found = [self.authorization, self.authorization.rpartition(" ")[2]]
        with contextlib.suppress(ValueError):
            found.append(base64.b64decode(found[1], validate=True).decode().partition(":")[2])
        return sorted((each for each in found if each), key=len, reverse=True)

    def __repr__(self) -> str:
        return "RemoteLogin(…)"


class GitRemote(msgspec.Struct, frozen=True):
    """A repository of another server, with the addresses that were checked."""

    url: str
    environment: Mapping[str, str]
    """Has the login. Only git gets it."""
    login: RemoteLogin | None

    def without_secrets(self, text: str) -> str:
        for secret in self.login.secrets if self.login else ():
            text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        return f"GitRemote({self.url!r})"


def check_url(url: str) -> None:
    """Raise Invalid if this is not the address of a repository that the server may fetch. Whether it may be http is checked later."""
    https = "https://" + url.removeprefix("http://") if url.startswith("http://") else url
    problem = rules.url_problem(https)
    if not problem and not rules.is_https(https):
        problem = "the server fetches a watched repository over https: give its https address"
    if not problem and "@" in urlsplit(https).netloc:
        problem = "it has a user in it: the login belongs to the connection"
    if problem:
        raise Invalid.in_field("url", problem)


async def find(outgoing: OutgoingClient, organization_id: str, url: str, login: RemoteLogin | None) -> GitRemote:
    """Look up a repository's server. Raises Invalid if this server must not connect to it, and Unavailable if it is not found now."""
    check_url(url)
    try:
        host, port, addresses = await outgoing.checked_addresses(organization_id, url)
    except NotSent as error:
        kind = Invalid if error.is_refused else Unavailable
        raise kind(f"the repository {url} cannot be fetched: {error.reason}") from None
    parts = urlsplit(url)
    pinned = ",".join(f"[{each}]" if ":" in each else each for each in addresses)
    settings = [] if ":" in host else [("http.curloptResolve", f"{host}:{port}:{pinned}")]
    if login is not None:
        if len(login.authorization) > _MAX_HEADER_CHARACTERS or not login.authorization.isprintable():
            raise Invalid("the credential of the connection cannot be sent in a header: give it another one")
        header = f"Authorization: {login.authorization}"
        settings.append((f"http.{parts.scheme}://{parts.netloc}/.extraHeader", header))
    environment = {"GIT_ALLOW_PROTOCOL": parts.scheme, "GIT_CONFIG_COUNT": str(len(settings))}
    for index, (key, value) in enumerate(settings):
        environment |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return GitRemote(url, environment, login)


def is_explained(error: GitProgramFailed) -> bool:
    return _explanation(error) is not None


def is_refused_content(error: GitProgramFailed) -> bool:
    """Return whether git refused what it was sent, because of what the repository has and not because of the mirror."""
    return re.search(r"fsck error|error in object|invalid index-pack output|index-pack died", error.message) is not None


def explained(error: GitProgramFailed, remote: GitRemote) -> TerracrewError:
    """Return the error for people, without the login, which a server could print."""
    found, printed = _explanation(error), remote.without_secrets(error.message)
    if found is None:
        return Unavailable(f"the repository {remote.url} cannot be fetched: {printed}")
    kind, words = found
    return kind(f"the repository {remote.url} cannot be fetched: {words} ({printed})")


def _explanation(error: GitProgramFailed) -> tuple[type[TerracrewError], str] | None:
    return next(((kind, words) for pattern, kind, words in _KNOWN if re.search(pattern, error.message)), None)
