"""Encrypts what providers of single sign-on gave or were given. `rekey/inventory.py` encrypts it anew under another master key."""

from terracrew.server.identity.sso.model import StoredProvider
from terracrew.server.secrets.keyring import Keyring


def context_of_client_secret(provider_id: str) -> str:
    return f"client secret of {provider_id}"


def context_of_refresh_token(session_id: str) -> str:
    return f"refresh token of {session_id}"


def seal_client_secret(keys: Keyring, provider_id: str, secret: str) -> bytes | None:
    return keys.encrypt(secret.encode(), context_of_client_secret(provider_id)) if secret else None


def client_secret(keys: Keyring, provider: StoredProvider) -> str:
    return (
        "" if provider.sealed is None else keys.decrypt(provider.sealed, context_of_client_secret(provider.id)).decode()
    )


def seal_refresh_token(keys: Keyring, session_id: str, text: str) -> bytes:
    return keys.encrypt(text.encode(), context_of_refresh_token(session_id))


def refresh_token(keys: Keyring, session_id: str, sealed: bytes) -> str:
    return keys.decrypt(sealed, context_of_refresh_token(session_id)).decode()
