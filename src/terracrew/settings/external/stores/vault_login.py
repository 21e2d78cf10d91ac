"""Logs in to Vault: with a token, an AppRole, a JWT or the service account of a pod."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from pydantic import SecretStr

from terracrew.errors import Unavailable
from terracrew.settings.external.section import VaultStore
from terracrew.settings.external.stores import contract

POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
_Post = Callable[[str, dict[str, str]], Any]
"""Posts a body to a path of Vault and returns the JSON of the answer."""


class Login(NamedTuple):
    token: str
    is_own: bool
    """Whether the token was made by this login, so that it can be revoked after the last read."""


def missing(settings: VaultStore) -> list[str]:
    """Return the settings that this way to log in needs and that are not there."""
    found = [] if settings.address else ["address"]
    match settings.auth:
        case "token":
            found += [] if settings.token or settings.token_file else ["token_file"]
        case "approle":
            found += [] if settings.role_id else ["role_id"]
            found += [] if settings.secret_id or settings.secret_id_file else ["secret_id_file"]
        case "jwt":
            found += [name for name in ("role", "jwt_file") if not getattr(settings, name)]
        case "kubernetes":
            found += [] if settings.role else ["role"]
    return found


def log_in(settings: VaultStore, post: _Post) -> Login:
    match settings.auth:
        case "token":
            return Login(_secret(settings.token, settings.token_file), is_own=False)
        case "approle":
            secret = _secret(settings.secret_id, settings.secret_id_file)
            body = {"role_id": settings.role_id or "", "secret_id": secret}
        case "jwt" | "kubernetes":
            body = {"role": settings.role or "", "jwt": contract.file_text(settings.jwt_file or POD_TOKEN).strip()}
    content = post(f"/v1/auth/{(settings.mount or settings.auth).strip('/')}/login", body)
    auth: Any = cast("dict[str, Any]", content).get("auth") if isinstance(content, dict) else None
    token = cast("dict[str, Any]", auth).get("client_token") if isinstance(auth, dict) else None
    if not isinstance(token, str) or not token:
        raise Unavailable(f"what answers at {settings.address} is not Vault: its answer to the login has no token")
    return Login(token, is_own=True)


def _secret(value: SecretStr | None, file: str | None) -> str:
    return value.get_secret_value() if value is not None else contract.file_text(file or "").strip()
