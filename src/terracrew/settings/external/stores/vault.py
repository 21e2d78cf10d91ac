"""Reads external settings from HashiCorp Vault: secrets of KV, version 1 and 2, with one login for all of them."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from pydantic import SecretStr

from terracrew.errors import Forbidden, Invalid, NotFound, TerracrewError, Unavailable
from terracrew.settings.external.references import Reference
from terracrew.settings.external.section import VaultStore
from terracrew.settings.external.stores import contract
from terracrew.settings.external.stores.contract import ReadDeadline
from terracrew.settings.external.stores.http import StoreAnswer, StoreConnection

MAX_REASON_CHARACTERS = 200
_RENEW_RATIO = 0.5
_SHORTEST_REREAD_SECONDS = 5.0
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


class Vault:
    def __init__(self, settings: VaultStore, deadline: ReadDeadline) -> None:
        self._settings = settings
        self._connection = StoreConnection(settings.address or "", "Vault", deadline, settings.ca_file)
        self._login: Login | None = None
        self._is_renewed = False
        self._secrets: dict[tuple[str, int], dict[str, Any]] = {}
        self.reread_seconds: float | None = None

    def read(self, reference: Reference) -> str:
        key = (reference.target, reference.version)
        if key not in self._secrets:
            self._secrets[key] = self._secret(*key)
        return contract.value_of(self._secrets[key], reference.field)

    def close(self) -> None:
        """Revoke the token of a login, which nothing needs any more. A given token stays valid."""
        if self._login is not None and self._login.is_own:
            try:
                self._ask("POST", "/v1/auth/token/revoke-self")
            except TerracrewError:
                return  # it expires by itself

    def _secret(self, path: str, version: int) -> dict[str, Any]:
        self._renew()
        mount = self._get(f"/v1/sys/internal/ui/mounts/{quote(path)}", f"the mount of {path} cannot be read")
        prefix = str(mount.get("path") or "")
        is_second = _part(mount, "options").get("version") == "2"
        if not is_second:
            if version:
                raise Invalid(f"{prefix} is not version 2 of KV, so its secrets have no versions")
            return self._get(f"/v1/{quote(path)}", f"there is no secret at {path}")
        query = f"?version={version}" if version else ""
        missing = f"there is no secret at {path}{f' with version {version}' if version else ''}, or it was deleted"
        found = self._get(f"/v1/{quote(prefix)}data/{quote(path.removeprefix(prefix))}{query}", missing)
        if not isinstance(found.get("data"), dict):
            raise NotFound(missing)
        return cast("dict[str, Any]", found["data"])

    def _get(self, path: str, missing: str) -> dict[str, Any]:
        answer = self._ask("GET", path)
        if answer.status == 404:
            raise NotFound(missing)
        self._refuse(answer)
        if not (data := _part(answer.content, "data")):
            raise Unavailable(f"Vault at {self._settings.address} answered without data: is it Vault?")
        return data

    def _renew(self) -> None:
        """Renew a token that was given and that expires. The process reads again after half of its life, which renews it again."""
        login = self._logged_in()
        if login.is_own or self._is_renewed:
            return
        self._is_renewed = True
        known = self._ask("GET", "/v1/auth/token/lookup-self")
        if known.status >= 500:
            self._refuse(known)
        data = _part(known.content, "data")
        if not data.get("renewable"):
            return
        renewed = self._ask("POST", "/v1/auth/token/renew-self", {})
        seconds = _part(renewed.content, "auth").get("lease_duration") or data.get("ttl")
        if isinstance(seconds, int | float) and seconds > 0:
            self.reread_seconds = max(_SHORTEST_REREAD_SECONDS, seconds * _RENEW_RATIO)

    def _logged_in(self) -> Login:
        if self._login is None:
            self._login = log_in(self._settings, lambda path, body: self._answer_of_login(path, body))
        return self._login

    def _answer_of_login(self, path: str, body: dict[str, str]) -> Any:
        answer = self._connection.request("POST", path, headers=self._headers(), json=body)
        self._refuse(answer, secrets=list(body.values()), what=f"the login by {self._settings.auth}")
        return answer.content

    def _ask(self, method: str, path: str, body: Any = None) -> StoreAnswer:
        headers = self._headers() | {"X-Vault-Token": self._logged_in().token}
        return self._connection.request(method, path, headers=headers, json=body)

    def _headers(self) -> dict[str, str]:
        namespace = {"X-Vault-Namespace": self._settings.namespace} if self._settings.namespace else {}
        return {"X-Vault-Request": "true", **namespace}

    def _refuse(self, answer: StoreAnswer, secrets: list[str] | None = None, what: str = "the request") -> None:
        if answer.status < 300:
            return
        reason = self._reason(answer.content, secrets or [])
        where = f"Vault at {self._settings.address}"
        if answer.status in (501, 503) and ("sealed" in reason or "not initialized" in reason):
            state = "sealed: unseal it" if "sealed" in reason else "not initialized"
            raise Unavailable(f"{where} is {state}, then start again")
        if answer.status in (400, 401, 403):
            raise Forbidden(f"{where} refused {what}{f': {reason}' if reason else ''}")
        raise Unavailable(f"{where} answered with status {answer.status}{f': {reason}' if reason else ''}")

    def _reason(self, content: Any, secrets: list[str]) -> str:
        """Return the first error of an answer, without anything that was sent as a secret."""
        found: Any = cast("dict[str, Any]", content).get("errors") if isinstance(content, dict) else None
        text = str(cast("list[Any]", found)[0]) if isinstance(found, list) and found else ""
        for secret in [*secrets, *([self._login.token] if self._login else [])]:
            text = text.replace(secret, "(hidden)") if secret else text
        return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:MAX_REASON_CHARACTERS]


def _part(content: Any, name: str) -> dict[str, Any]:
    """Return an object in an answer; an empty one if the answer has none."""
    found: Any = cast("dict[str, Any]", content).get(name) if isinstance(content, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
