"""HashiCorp Vault keeps the contract of a store of external settings, with every way to log in and both versions of KV."""

import contextlib
import datetime
import http.server
import json
import threading
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from terracrew.settings import layers
from tests.contracts.settings_store import SECRET, SECRET_NAME, Place, StoreContract, chain, refused, write
from tests.machine import platforms
from tests.machine.certificates import certificate
from tests.machine.platforms.vault import Vault
from tests.machine.silent_server import silent_server
from tests.machine.vault_server.client import VaultClient

pytestmark = [pytest.mark.usefixtures("no_settings"), pytest.mark.platform("vault")]


class VaultPlace:
    has_fields = True
    holds_large_values = False

    def __init__(self, vault: VaultClient, version: int) -> None:
        self.vault, self.mount, self._version = vault, f"kv-{uuid.uuid4().hex}", version
        vault.post(f"sys/mounts/{self.mount}", {"type": "kv", "options": {"version": str(version)}})
        self.section: dict[str, Any] = {"vault": {"address": vault.url, "token": vault.token}}
        self._silence = contextlib.ExitStack()

    def put(self, name: str, value: str) -> str:
        fields: Any = {"value": value}
        if value.startswith("{"):
            fields = json.loads(value)
        path = f"{self.mount}/data/crew/{name}" if self._version == 2 else f"{self.mount}/crew/{name}"
        self.vault.post(path, {"data": fields} if self._version == 2 else fields)
        return f"vault:{self.mount}/crew/{name}#value"

    def missing(self) -> str:
        return f"vault:{self.mount}/crew/missing#value"

    def hang(self) -> str | None:
        self.section = {"vault": {"address": self._silence.enter_context(silent_server()), "token": "hush"}}
        return self.missing()

    def policy(self) -> str:
        """Make a policy that lets its token read this mount, and return its name."""
        rules = f'path "{self.mount}/*" {{ capabilities = ["read"] }}'
        self.vault.post(f"sys/policies/acl/{self.mount}", {"policy": rules})
        return self.mount

    def close(self) -> None:
        self._silence.close()


@pytest.fixture
def vault() -> VaultClient:
    return VaultClient(*platforms.need("vault").split("#"))


class TestVersionTwo(StoreContract):
    @pytest.fixture
    def place(self, vault: VaultClient) -> Generator[VaultPlace]:
        place = VaultPlace(vault, 2)
        yield place
        place.close()

    @pytest.mark.feature("T3.vault")
    def test_an_earlier_version_is_read_and_a_deleted_one_is_missing(self, place: VaultPlace, tmp_path: Path) -> None:
        place.put("secret", "first")
        place.put("secret", "second")
        first = f"vault:{place.mount}/crew/secret?version=1#value"
        assert layers.load(write(tmp_path, place.section, {SECRET_NAME: first})).client_secret == "first"
        place.vault.post(f"{place.mount}/delete/crew/secret", {"versions": [1]})
        words = refused(write(tmp_path, place.section, {SECRET_NAME: first})).message
        assert "with version 1, or it was deleted" in words

    @pytest.mark.feature("T3.vault")
    def test_an_approle_logs_in_and_leaves_no_token(self, place: VaultPlace, tmp_path: Path) -> None:
        mount = f"approle-{place.mount}"
        place.vault.post(f"sys/auth/{mount}", {"type": "approle"})
        place.vault.post(f"auth/{mount}/role/crew", {"token_policies": [place.policy()]})
        role_id = place.vault.get(f"auth/{mount}/role/crew/role-id")["data"]["role_id"]
        made = place.vault.post(f"auth/{mount}/role/crew/secret-id", {})["data"]
        file = tmp_path / "secret-id"
        file.write_text(made["secret_id"] + "\n")
        section = {"address": place.vault.url, "auth": "approle", "mount": mount, "role_id": role_id}
        before = place.vault.accessors()
        config = layers.load(
            write(tmp_path, {"vault": section | {"secret_id_file": str(file)}}, {SECRET_NAME: place.put("s", SECRET)})
        )
        assert config.client_secret == SECRET
        assert str(file) in config.isolation.private_paths
        assert place.vault.accessors() == before

    @pytest.mark.feature("T3.vault", "T3.hidden")
    def test_a_refused_login_names_no_secret(self, place: VaultPlace, tmp_path: Path) -> None:
        mount = f"approle-{place.mount}"
        place.vault.post(f"sys/auth/{mount}", {"type": "approle"})
        section = {"address": place.vault.url, "auth": "approle", "mount": mount, "role_id": "no-one"}
        section["secret_id"] = "hush-secret-id"
        error = refused(write(tmp_path, {"vault": section}, {SECRET_NAME: place.put("s", SECRET)}))
        assert "refused the login by approle" in error.message
        assert not [text for text in chain(error) if "hush-secret-id" in text]

    @pytest.mark.feature("T3.vault")
    def test_a_jwt_logs_in(self, place: VaultPlace, tmp_path: Path) -> None:
        key, mount = ECKey.generate_key("P-256"), f"jwt-{place.mount}"
        public = key.as_pem(private=False).decode()
        place.vault.post(f"sys/auth/{mount}", {"type": "jwt"})
        place.vault.post(f"auth/{mount}/config", {"jwt_validation_pubkeys": [public]})
        role = {
            "role_type": "jwt",
            "bound_audiences": ["vault"],
            "user_claim": "sub",
            "token_policies": [place.policy()],
        }
        place.vault.post(f"auth/{mount}/role/crew", role)
        now = int(datetime.datetime.now(datetime.UTC).timestamp())
        claims = {"sub": "runner", "aud": "vault", "iat": now, "exp": now + 600}
        file = tmp_path / "jwt"
        file.write_text(jwt.encode({"alg": "ES256"}, claims, key, algorithms=["ES256"]))
        section = {"address": place.vault.url, "auth": "jwt", "mount": mount, "role": "crew", "jwt_file": str(file)}
        found = layers.load(write(tmp_path, {"vault": section}, {SECRET_NAME: place.put("s", SECRET)}))
        assert found.client_secret == SECRET

    @pytest.mark.feature("T3.vault")
    def test_the_service_account_of_a_pod_logs_in(self, place: VaultPlace, tmp_path: Path) -> None:
        mount = f"kubernetes-{place.mount}"
        with token_reviews() as url:
            place.vault.post(f"sys/auth/{mount}", {"type": "kubernetes"})
            authority = certificate(tmp_path)[0].read_text()
            config = {"kubernetes_host": url, "disable_local_ca_jwt": True, "token_reviewer_jwt": pod_token()}
            config["kubernetes_ca_cert"] = authority
            place.vault.post(f"auth/{mount}/config", config)
            role = {"bound_service_account_names": "crew", "bound_service_account_namespaces": "default"}
            place.vault.post(f"auth/{mount}/role/crew", role | {"token_policies": [place.policy()]})
            file = tmp_path / "pod"
            file.write_text(pod_token())
            section = {"address": place.vault.url, "auth": "kubernetes", "mount": mount, "role": "crew"}
            section["jwt_file"] = str(file)
            found = layers.load(write(tmp_path, {"vault": section}, {SECRET_NAME: place.put("s", SECRET)}))
        assert found.client_secret == SECRET

    @pytest.mark.feature("T3.vault", "T3.reload")
    def test_a_token_that_expires_is_renewed_and_read_with_again_in_time(
        self, place: VaultPlace, tmp_path: Path
    ) -> None:
        made = place.vault.post("auth/token/create", {"policies": [place.policy()], "ttl": "120s", "renewable": True})
        section = {"vault": {"address": place.vault.url, "token": made["auth"]["client_token"]}}
        config = layers.load(write(tmp_path, section, {SECRET_NAME: place.put("s", SECRET)}))
        assert (config.client_secret, config.reread_seconds) == (SECRET, 60.0)

    @pytest.mark.feature("T3.vault", "T3.errors")
    def test_a_token_without_the_right_is_refused(self, place: VaultPlace, tmp_path: Path) -> None:
        made = place.vault.post("auth/token/create", {"policies": ["default"], "no_parent": True})
        token = made["auth"]["client_token"]
        section = {"vault": {"address": place.vault.url, "token": token}}
        error = refused(write(tmp_path, section, {SECRET_NAME: place.put("s", SECRET)}))
        assert "refused the request" in error.message
        assert not [text for text in chain(error) if token in text]

    @pytest.mark.feature("T3.vault", "T3.errors")
    def test_an_absent_vault_is_told_from_a_slow_one(self, place: VaultPlace, tmp_path: Path) -> None:
        with silent_server() as url:
            pass
        section = {"vault": {"address": url, "token": "hush-token"}}
        error = refused(write(tmp_path, section, {SECRET_NAME: place.missing()}))
        assert f"Vault at {url} cannot be reached: connection refused" in error.message
        assert "hush-token" not in error.message


@pytest.mark.feature("T3.vault", "T3.errors")
def test_a_sealed_vault_is_named(tmp_path: Path) -> None:
    platforms.need("vault")  # this one is built by now, and a test must not seal the Vault of the others
    own = Vault()
    url, _, token = own.join().partition("#")
    try:
        place = VaultPlace(VaultClient(url, token), 2)
        path = write(tmp_path, place.section, {SECRET_NAME: place.put("s", SECRET)})
        assert layers.load(path).client_secret == SECRET
        place.vault.post("sys/seal", {})
        error = refused(path)
        assert f"Vault at {url} is sealed: unseal it" in error.message
        assert not [text for text in chain(error) if token in text or SECRET in text]
    finally:
        own.leave()


class TestVersionOne(StoreContract):
    @pytest.fixture
    def place(self, vault: VaultClient) -> Generator[Place]:
        place = VaultPlace(vault, 1)
        yield place
        place.close()


def pod_token() -> str:
    """Return a token as a pod has it. Only the server of Kubernetes, here `token_reviews`, checks its signature."""
    claims: dict[str, Any] = {
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "crew", "uid": "uid-1"}}
    }
    claims |= {
        "iss": "kubernetes",
        "sub": "system:serviceaccount:default:crew",
        "iat": 1700000000,
        "nbf": 1700000000,
        "exp": 4102444800,
    }
    return jwt.encode({"alg": "ES256"}, claims, ECKey.generate_key("P-256"), algorithms=["ES256"])


@contextlib.contextmanager
def token_reviews() -> Generator[str]:
    """Answer as the server of Kubernetes does when Vault asks it who a token belongs to."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            user: Any = {"username": "system:serviceaccount:default:crew", "uid": "uid-1", "groups": []}
            status: Any = {"authenticated": True, "user": user}
            body = json.dumps(
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}
            ).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
            """Print nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
