"""Answers as Azure Key Vault, Microsoft Entra and the metadata service of a machine do, by their recorded contract.

No emulator of Key Vault is in a registry of packages. The paths, parameters and answers are those of the documented REST
interface: `GET /secrets/{name}/{version}?api-version=7.4`, `POST /{tenant}/oauth2/v2.0/token`, and
`GET /metadata/identity/oauth2/token` with the header `Metadata: true`.
"""

import contextlib
import http.server
import json
import threading
from collections.abc import Generator
from typing import Any
from urllib.parse import parse_qs, urlsplit

TENANT, CLIENT = "72f988bf-86f1-41af-91ab-2d7cd011db47", "11111111-2222-3333-4444-555555555555"
CLIENT_SECRET, FEDERATED_TOKEN, ACCESS_TOKEN = "entra-hush-1", "eyJ.federated.hush", "eyJ.access.hush"
_SCOPE = "https://vault.azure.net/.default"


class AzureKeyVault:
    def __init__(self) -> None:
        self.url = ""
        self.secrets: dict[str, str] = {}
        self.requests: list[str] = []
        self.ending = threading.Event()

    def token(self, form: dict[str, list[str]]) -> tuple[int, Any]:
        """Answer a request for a token as Entra does. The description of an error repeats the client's id, as there."""
        given = {name: values[0] for name, values in form.items()}
        is_known = given.get("client_secret") == CLIENT_SECRET or (
            given.get("client_assertion") == FEDERATED_TOKEN
            and given.get("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        )
        is_right = given.get("grant_type") == "client_credentials" and given.get("client_id") == CLIENT
        if is_known and is_right and given.get("scope") == _SCOPE:
            return 200, {"token_type": "Bearer", "expires_in": 3599, "access_token": ACCESS_TOKEN}
        description = f"AADSTS7000215: Invalid client secret provided: {given.get('client_secret')}"
        return 401, {"error": "invalid_client", "error_description": description, "error_codes": [7000215]}

    def secret(self, path: str, query: dict[str, list[str]], authorization: str | None) -> tuple[int, Any]:
        if authorization != f"Bearer {ACCESS_TOKEN}":
            return 401, {"error": {"code": "Unauthorized", "message": "AKV10000: Request is missing a Bearer token."}}
        if query.get("api-version") != ["7.4"]:
            return 400, {"error": {"code": "BadParameter", "message": "the api-version is not supported"}}
        name = path.removeprefix("/secrets/")
        if name not in self.secrets:
            return 404, {
                "error": {"code": "SecretNotFound", "message": f"A secret with (name/id) {name} was not found."}
            }
        return 200, {"value": self.secrets[name], "id": f"{self.url}{path}", "attributes": {"enabled": True}}


@contextlib.contextmanager
def running() -> Generator[AzureKeyVault]:
    azure = AzureKeyVault()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            azure.requests.append(parts.path)
            if parts.path == "/secrets/hangs":
                azure.ending.wait()
            if parts.path == "/metadata/identity/oauth2/token":
                is_valid = self.headers["Metadata"] == "true" and query.get("resource") == ["https://vault.azure.net"]
                self._answer(*((200, {"access_token": ACCESS_TOKEN, "expires_in": "3599"}) if is_valid else (400, {})))
                return
            self._answer(*azure.secret(parts.path, query, self.headers["Authorization"]))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            azure.requests.append(self.path)
            is_token = self.path == f"/{TENANT}/oauth2/v2.0/token"
            self._answer(*(azure.token(form) if is_token else (404, {"error": "not_found"})))

        def _answer(self, status: int, content: Any) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        azure.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield azure
        finally:
            azure.ending.set()
            server.shutdown()
            thread.join()
