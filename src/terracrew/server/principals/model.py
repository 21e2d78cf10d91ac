"""The principal that a request or a connection acts as, the roles that it can have, and the verbs that roles include."""

from typing import Literal

import msgspec

from terracrew.api.access import PrincipalKind

AUDIENCE = "terracrew"
"""The audience of the access tokens that this server gives to machines, so no token for a cloud may have it."""


class AttemptScope(msgspec.Struct, frozen=True):
    """The one attempt, with its module and runner, that a credential of an executor or an engine may act for."""

    job_id: str
    attempt: int
    organization_id: str
    module_id: str
    module_path: str
    runner_id: str


class Principal(msgspec.Struct, frozen=True):
    """The identity that a request or a connection acts as."""

    kind: PrincipalKind
    id: str
    name: str
    organization_id: str | None
    is_system_admin: bool = False
    attempt: AttemptScope | None = None
    credential_id: str | None = None
    """The token, session or secret that the principal used. What was opened with a revoked credential is found by this id."""
    expires_at: float | None = None
    """When its access token expires, by the servers' clock. A connection that was opened with it ends then, too."""
    credential: Literal["session", "token", "local_token", "secret"] | None = None
    """How a person or a service account has authenticated. A local token is one that was used on the server's machine."""
    credential_ends_at: float | None = None
    """When the API token or client secret itself expires; None if it never does."""
    is_organization_chosen: bool = False
    """Whether the request itself, or its session, has chosen the organization that it is about."""
    address: str | None = None
    """The address of the request or the connection, for the audit log. None for the server itself."""

    @property
    def once_token_id(self) -> str | None:
        """The once token with which a runner has authenticated; None if its credential is for any number of jobs."""
        is_once = self.kind == "runner" and (self.credential_id or "").startswith("onc_")
        return self.credential_id if is_once else None


SYSTEM = Principal("system", "system", "Terracrew", None)
"""The server itself, in its own loops."""
