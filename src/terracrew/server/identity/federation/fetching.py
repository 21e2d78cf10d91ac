"""Fetches small public documents from issuers, by requests that cannot reach this server's own network."""

from terracrew.server.identity.federation import rules
from terracrew.server.identity.federation.model import TokenRefused
from terracrew.server.outgoing.answers import NotSent, OutgoingAnswer
from terracrew.server.outgoing.client import OutgoingClient, OutgoingRequest

FETCH_SECONDS = 5.0
"""For one document, from the lookup of its name to its last byte."""
_ACCEPTED = "application/json, application/jwk-set+json"
"""Kubernetes refuses a request for its keys that does not accept the second one."""


class Fetcher:
    def __init__(self, allowed_origins: frozenset[str] = frozenset()) -> None:
        """`allowed_origins` may be fetched without TLS and may have private addresses; `rules.origin` says how they are written."""
        self._allowed = allowed_origins
        self._client = OutgoingClient()

    async def get(self, url: str, max_bytes: int, organization_id: str = "") -> bytes:
        """Return the body of an answer 200 for an organization. Raises TokenRefused with what went wrong."""
        request = OutgoingRequest(url, headers={"Accept": _ACCEPTED}, seconds=FETCH_SECONDS, max_bytes=max_bytes)
        answer = await self.send(organization_id, request)
        host = rules.origin(url).partition("://")[2].rpartition(":")[0].strip("[]")
        if answer.status != 200:
            raise TokenRefused(f"{host} answered {answer.status}")
        return answer.body

    async def send(self, organization_id: str, request: OutgoingRequest) -> OutgoingAnswer:
        """Return a whole answer of an issuer, whatever its status is. Raises TokenRefused if there is none."""
        is_allowed = self.require_reachable(request.url)
        try:
            answer = await self._client.send(organization_id, request, is_private_allowed=is_allowed)
        except NotSent as failure:
            raise TokenRefused(failure.reason) from None
        if answer.incomplete:
            raise TokenRefused(answer.incomplete)
        return answer

    def require_reachable(self, url: str) -> bool:
        """Refuse an address that is neither of https nor of an origin that may do without. Return whether it is one of these."""
        try:
            is_allowed = rules.origin(url) in self._allowed
        except ValueError:
            raise TokenRefused(f"{url[:200]!r} is not an address") from None
        scheme = url.partition("://")[0].lower()
        if scheme != "https" and not (is_allowed and scheme == "http"):
            raise TokenRefused(f"{url[:200]!r} is not an https address")
        return is_allowed
