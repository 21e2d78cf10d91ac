"""Leads people who log out here to the logout of their provider (OpenID Connect RP-Initiated Logout 1.0).

The request names the client and has no `id_token_hint`: an ID token that is kept for it would be one more secret at rest, and its claims
would stand in the addresses that proxies and the provider log. The provider knows the browser by its own cookie.
"""

from urllib.parse import urlencode

from terracrew.server.db.seam import Tx
from terracrew.server.identity.sso import store
from terracrew.server.identity.sso.model import SignInFailed
from terracrew.server.identity.sso.service import SingleSignOn


async def provider_of_session(tx: Tx, session_id: str) -> str | None:
    """Return the provider at which a session began, if a logout here leads there."""
    session = await store.session(tx, session_id)
    provider = None if session is None else await store.provider(tx, session.provider_id)
    return provider.id if provider is not None and provider.is_enabled and provider.ends_session_there else None


async def logout_address(sso: SingleSignOn, provider_id: str) -> str | None:
    """Return where a browser logs out at a provider; None if the provider has no such address, or does not answer."""
    try:
        provider = await sso.enabled(provider_id)
        url = await sso.exchanges.endpoint(provider, "end_session_endpoint")
    except SignInFailed:
        return None
    if not provider.ends_session_there:
        return None
    asked = {"client_id": provider.client_id}
    if provider.returns_after_logout:
        asked["post_logout_redirect_uri"] = f"{sso.trust.url}/login"
    return f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}"
