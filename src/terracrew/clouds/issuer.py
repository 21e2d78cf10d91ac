"""Checks that what the issuer of tokens publishes belongs to the tokens that the server signs."""

import json
from typing import Any
from urllib.parse import urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from terracrew.clouds.contract import CheckFailed, CloudSilent
from terracrew.clouds.model import CloudIdentity
from terracrew.clouds.web import Fetch

DISCOVERY_PATH = "/.well-known/openid-configuration"
_ALGORITHMS = ["RS256", "ES256", "ES384", "EdDSA"]
_PUBLISH = "Publish both files again with `terracrew server issuer export`, or set `issuer_url` to where the server itself is reached."


async def check_published(identity: CloudIdentity, token: str, fetch: Fetch) -> str:
    """Check that the published keys verify this token. Returns what was found. Raises CheckFailed."""
    issuer = identity.issuer.rstrip("/")
    document = await _document(issuer + DISCOVERY_PATH, fetch)
    if str(document.get("issuer", "")).rstrip("/") != issuer:
        raise CheckFailed(f"{issuer}{DISCOVERY_PATH} is of the issuer {document.get('issuer')}, not {issuer}", _PUBLISH)
    address = str(document.get("jwks_uri", ""))
    if not address:
        raise CheckFailed(f"{issuer}{DISCOVERY_PATH} has no `jwks_uri`", _PUBLISH)
    published = await _document(address, fetch)
    try:
        keys = KeySet.import_key_set(published)  # type: ignore[arg-type]
        jwt.decode(token, keys, algorithms=_ALGORITHMS)
    except (JoseError, ValueError, KeyError):
        raise CheckFailed(
            f"none of the keys at {address} verifies the tokens that the server signs", _PUBLISH
        ) from None
    count = len(published["keys"])
    return f"{count} {'key' if count == 1 else 'keys'}"


def check_address(identity: CloudIdentity) -> None:
    """Check what AWS demands of the address of an issuer. Raises CheckFailed."""
    parts = urlsplit(identity.issuer)
    if parts.scheme != "https" or parts.port not in (None, 443) or parts.query:
        raise CheckFailed(
            f"AWS accepts no issuer like {identity.issuer}: it must begin with https, and have no port and no query",
            "Set `issuer_url` of the server to such an address. `terracrew server issuer export` writes what must be there.",
        )


async def _document(url: str, fetch: Fetch) -> dict[str, Any]:
    try:
        answer = await fetch(url, {"Accept": "application/json, application/jwk-set+json"})
    except CloudSilent as error:
        raise CheckFailed(error.message, _PUBLISH) from None
    if answer.status != 200:
        raise CheckFailed(f"{url} answers with status {answer.status}", _PUBLISH)
    try:
        found: Any = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CheckFailed(f"{url} is no JSON document", _PUBLISH)
    return found  # pyright: ignore[reportUnknownVariableType]
