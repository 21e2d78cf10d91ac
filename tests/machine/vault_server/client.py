"""Requests of an administrator to a Vault of the tests."""

import json
from typing import Any

import urllib3


class VaultClient:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self._pool = urllib3.PoolManager()

    def post(self, path: str, body: Any) -> Any:
        return self._ask("POST", path, body)

    def get(self, path: str) -> Any:
        return self._ask("GET", path)

    def accessors(self) -> set[str]:
        """Return the tokens that exist."""
        return set(self._ask("LIST", "auth/token/accessors")["data"]["keys"])

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._pool.request(method, f"{self.url}/v1/{path}", json=body, headers={"X-Vault-Token": self.token})
        assert answer.status < 300, (path, answer.status, answer.data)
        return json.loads(answer.data) if answer.data else None
