"""Reads external settings from Azure Key Vault, with a token from Microsoft Entra or from the machine's managed identity."""

import os
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from terracrew.errors import Forbidden, NotFound, Unavailable
from terracrew.settings.external.references import Reference
from terracrew.settings.external.section import AzureStore
from terracrew.settings.external.stores import contract
from terracrew.settings.external.stores.contract import ReadDeadline
from terracrew.settings.external.stores.http import StoreAnswer, StoreConnection

API_VERSION = "7.4"
METADATA_VERSION = "2018-02-01"
PUBLIC_RESOURCE = "https://vault.azure.net"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class AzureKeyVault:
    reread_seconds = None

    def __init__(self, settings: AzureStore, deadline: ReadDeadline) -> None:
        self._settings, self._deadline = with_variables(settings), deadline
        self._tokens: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def read(self, reference: Reference) -> str:
        if reference.target not in self._texts:
            self._texts[reference.target] = self._text(reference.target)
        return contract.field_of(self._texts[reference.target], reference.field)

    def close(self) -> None:
        """A token of Entra cannot be revoked; it expires."""

    def _text(self, url: str) -> str:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        token = self._token(resource_of(parts.hostname or ""))
        vault = StoreConnection(origin, "Azure Key Vault", self._deadline)
        answer = vault.request(
            "GET", f"{parts.path}?api-version={API_VERSION}", headers={"Authorization": f"Bearer {token}"}
        )
        if answer.status == 404:
            raise NotFound(f"{origin} has no secret {parts.path.removeprefix('/secrets/')}")
        if answer.status in (401, 403):
            raise Forbidden(f"{origin} refused the identity{_code(answer)}: let it `get` secrets")
        value = _mapping(answer.content).get("value")
        if answer.status != 200 or not isinstance(value, str):
            raise Unavailable(f"{origin} answered with status {answer.status}{_code(answer)}")
        return contract.text_of(value.encode())

    def _token(self, resource: str) -> str:
        if resource not in self._tokens:
            if self._settings.auth == "managed-identity":
                answer, where = self._of_machine(resource), "the metadata service of this machine"
            else:
                answer, where = self._of_entra(resource), self._settings.authority
            token = _mapping(answer.content).get("access_token")
            if answer.status in (400, 401, 403):
                raise Forbidden(f"{where} refused the identity{_code(answer)}")
            if answer.status != 200 or not isinstance(token, str):
                raise Unavailable(f"{where} gave no token: status {answer.status}{_code(answer)}")
            self._tokens[resource] = token
        return self._tokens[resource]

    def _of_entra(self, resource: str) -> StoreAnswer:
        settings = self._settings
        form = {
            "grant_type": "client_credentials",
            "client_id": settings.client_id or "",
            "scope": f"{resource}/.default",
        }
        if settings.auth == "federated":
            token = contract.file_text(settings.federated_token_file or "").strip()
            form |= {"client_assertion_type": _ASSERTION, "client_assertion": token}
        elif settings.client_secret is not None:
            form["client_secret"] = settings.client_secret.get_secret_value()
        else:
            form["client_secret"] = contract.file_text(settings.client_secret_file or "").strip()
        entra = StoreConnection(settings.authority, "Microsoft Entra", self._deadline)
        return entra.request("POST", f"/{quote(settings.tenant_id or '', safe='')}/oauth2/v2.0/token", form=form)

    def _of_machine(self, resource: str) -> StoreAnswer:
        query = {"api-version": METADATA_VERSION, "resource": resource}
        query |= {"client_id": self._settings.client_id} if self._settings.client_id else {}
        machine = StoreConnection(self._settings.metadata_url, "the metadata service", self._deadline)
        return machine.request(
            "GET", f"/metadata/identity/oauth2/token?{urlencode(query)}", headers={"Metadata": "true"}
        )


def with_variables(settings: AzureStore) -> AzureStore:
    """Return the settings with what Azure's own variables say where a setting is missing. Pods with a workload identity have them."""
    names = {
        "tenant_id": "AZURE_TENANT_ID",
        "client_id": "AZURE_CLIENT_ID",
        "federated_token_file": "AZURE_FEDERATED_TOKEN_FILE",
    }
    found = {
        field: os.environ[name]
        for field, name in names.items()
        if getattr(settings, field) is None and os.environ.get(name)
    }
    return settings.model_copy(update=found)


def missing(settings: AzureStore) -> list[str]:
    """Return the settings that this way to log in needs and that are not there."""
    if settings.auth == "managed-identity":
        return []
    known = with_variables(settings)
    found = [name for name in ("tenant_id", "client_id") if not getattr(known, name)]
    if settings.auth == "federated":
        return found + ([] if known.federated_token_file else ["federated_token_file"])
    return found + ([] if known.client_secret or known.client_secret_file else ["client_secret_file"])


def resource_of(host: str) -> str:
    """Return what the token must be for. The national clouds have vaults in domains of their own (`NAME.vault.azure.cn`)."""
    domain = host.partition(".")[2]
    return f"https://{domain}" if domain.startswith("vault.") else PUBLIC_RESOURCE


def _mapping(content: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _code(answer: StoreAnswer) -> str:
    """Return the code of an error for a message. The description beside it may repeat what was sent, so it is left out."""
    error: Any = _mapping(answer.content).get("error")
    code: Any = _mapping(error).get("code") if isinstance(error, dict) else error
    return f" ({code[:80]})" if isinstance(code, str) and code.isprintable() else ""
