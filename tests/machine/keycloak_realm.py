"""A realm of a real Keycloak, whose people, groups, keys and sessions a test changes as its administrator does."""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.machine.platforms import keycloak

ANSWER_SECONDS = 60.0
LOGIN_SECONDS = 7200
_KEYS = "org.keycloak.keys.KeyProvider"


class KeycloakRealm:
    def __init__(self, address: str, password_of_people: str) -> None:
        """`address` is what the platform returned. Refresh tokens can be used once in this realm, as in a strict one."""
        server, _, password = address.partition("#")
        self.name = f"realm-{secrets.token_hex(4)}"
        self.url = f"{server}/realms/{self.name}"
        self._password_of_people = password_of_people
        self._administrator = httpx.Client(base_url=f"{server}/admin/realms", timeout=ANSWER_SECONDS)
        self._log_in(server, password)
        self._ask("PUT", "/master", {"accessTokenLifespan": LOGIN_SECONDS})  # a minute is too short for a test
        self._log_in(server, password)
        wanted = {"realm": self.name, "enabled": True, "revokeRefreshToken": True, "refreshTokenMaxReuse": 0}
        self._ask("POST", "", wanted)

    def _log_in(self, server: str, password: str) -> None:
        asked = {
            "grant_type": "password",
            "client_id": "admin-cli",
            "username": keycloak.ADMINISTRATOR,
            "password": password,
        }
        answer = self._administrator.post(f"{server}/realms/master/protocol/openid-connect/token", data=asked)
        assert answer.status_code == 200, answer.text
        self._administrator.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def close(self) -> None:
        self._ask("DELETE", f"/{self.name}")
        self._administrator.close()

    def begin(self) -> None:
        """Have no people, and no groups that an earlier test has made. A new realm would take seconds."""
        for kind in ("users", "groups"):
            for each in self._get(f"/{self.name}/{kind}"):
                self._ask("DELETE", f"/{self.name}/{kind}/{each['id']}")

    def register(self, clients: list[dict[str, Any]]) -> None:
        """Replace the clients that tests have made, as an administrator follows docs/single-sign-on.md."""
        for each in clients:
            for known in self._get(f"/{self.name}/clients", clientId=each["client_id"]):
                self._ask("DELETE", f"/{self.name}/clients/{known['id']}")
            self._ask("POST", f"/{self.name}/clients", _client(each))

    def change_client(self, client_id: str, attributes: dict[str, str], **fields: Any) -> None:
        (found,) = self._get(f"/{self.name}/clients", clientId=client_id)
        changed = found | fields | {"attributes": found["attributes"] | attributes}
        self._ask("PUT", f"/{self.name}/clients/{found['id']}", changed)

    def use_front_channel(self, client_id: str, address: str) -> None:
        """Tell the client of a logout through the browser that logs out, and by no request of Keycloak's own."""
        attributes = {"frontchannel.logout.url": address, "frontchannel.logout.session.required": "true"}
        self.change_client(client_id, attributes, frontchannelLogout=True)

    def add_person(self, name: str, *groups: str) -> str:
        """Return the id of a new person, which is their `sub`."""
        for group in groups:
            if not self._groups(group):
                self._ask("POST", f"/{self.name}/groups", {"name": group})
        person = {
            "username": name,
            "email": f"{name}@example.com",
            "emailVerified": True,
            "firstName": name,
            "lastName": "Example",
            "enabled": True,
            "groups": [f"/{group}" for group in groups],
            "credentials": [{"type": "password", "value": self._password_of_people, "temporary": False}],
        }
        return self._ask("POST", f"/{self.name}/users", person).headers["Location"].rpartition("/")[2]

    def remove_from_group(self, person_id: str, group: str) -> None:
        (found,) = self._groups(group)
        self._ask("DELETE", f"/{self.name}/users/{person_id}/groups/{found['id']}")

    def disable(self, person_id: str) -> None:
        path = f"/{self.name}/users/{person_id}"
        self._ask("PUT", path, self._get(path) | {"enabled": False})

    def delete(self, person_id: str) -> None:
        self._ask("DELETE", f"/{self.name}/users/{person_id}")

    def sessions(self, person_id: str) -> list[str]:
        """Return the ids of a person's sessions, the oldest first."""
        found = self._get(f"/{self.name}/users/{person_id}/sessions")
        return [each["id"] for each in sorted(found, key=lambda each: each["start"])]

    def log_out(self, person_id: str) -> None:
        """End all sessions of a person. Keycloak tells the clients before it answers."""
        self._ask("POST", f"/{self.name}/users/{person_id}/logout")

    def end_session(self, session_id: str) -> None:
        self._ask("DELETE", f"/{self.name}/sessions/{session_id}")

    def replace_keys(self) -> None:
        """Sign with a new key from now on, and withdraw the one before."""
        realm = self._get(f"/{self.name}")
        path = f"/{self.name}/components"
        before = [each for each in self._get(path, type=_KEYS) if each["providerId"] == "rsa-generated"]
        new = {
            "name": f"key-{secrets.token_hex(4)}",
            "providerId": "rsa-generated",
            "providerType": _KEYS,
            "parentId": realm["id"],
            "config": {"priority": ["200"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]},
        }
        self._ask("POST", path, new)
        for each in before:
            self._ask("DELETE", f"{path}/{each['id']}")

    def _groups(self, name: str) -> list[dict[str, Any]]:
        return self._get(f"/{self.name}/groups", search=name, exact="true")

    def _get(self, path: str, **params: str) -> Any:
        answer = self._administrator.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = self._administrator.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer


def _client(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a client as Keycloak's own interface has it."""
    groups = {
        "name": "groups",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-group-membership-mapper",
        "config": {"claim.name": "groups", "full.path": "false", "id.token.claim": "true"},
    }
    attributes = {"backchannel.logout.session.required": "true", "pkce.code.challenge.method": "S256"}
    if address := wanted.get("backchannel_logout_uri"):
        attributes["backchannel.logout.url"] = address
    return {
        "clientId": wanted["client_id"],
        "secret": wanted["client_secret"],
        "protocol": "openid-connect",
        "publicClient": False,
        "standardFlowEnabled": True,
        "directAccessGrantsEnabled": False,
        "frontchannelLogout": False,
        "redirectUris": wanted["redirect_uris"],
        "protocolMappers": [groups],
        "attributes": attributes,
    }


@contextmanager
def made(address: str, password_of_people: str) -> Generator[KeycloakRealm]:
    realm = KeycloakRealm(address, password_of_people)
    try:
        yield realm
    finally:
        realm.close()
