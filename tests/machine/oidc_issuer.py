"""An issuer of OpenID tokens for tests: a real HTTP server with a discovery document and keys that a test can replace or withhold."""

import json
import ssl
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

Key = RSAKey | ECKey | OKPKey
DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/keys"
KEYS_TYPE = "application/jwk-set+json"


def new_key(key_id: str, kind: str = "P-256") -> Key:
    if kind.isdigit():
        return RSAKey.generate_key(int(kind), {"kid": key_id}, private=True)
    kinds = OKPKey if kind == "Ed25519" else ECKey
    return kinds.generate_key(kind, {"kid": key_id}, private=True)  # type: ignore[arg-type]


class Issuer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.key = new_key("one")
        self.keys: list[dict[str, Any]] = [self.key.as_dict(private=False)]
        self.document: dict[str, Any] = {"issuer": url, "jwks_uri": url + KEYS}
        self.asked: list[str] = []
        self.posted: list[str] = []
        """The bodies of requests with one."""
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        """Answers that replace the usual ones, by path: status, headers, body."""
        self.open = threading.Event()
        """While it is cleared, no request is answered."""
        self.open.set()
        self.is_asked = threading.Event()

    def replace_key(self, key_id: str, kind: str = "P-256") -> None:
        """Sign with a new key, and publish only that one."""
        self.key = new_key(key_id, kind)
        self.keys = [self.key.as_dict(private=False)]

    def token(self, audience: Any = "http://crew.test", **claims: Any) -> str:
        """Sign a token that is valid for five minutes. A claim that is None is left out."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": "robot", "aud": audience, "iat": now, "exp": now + 300}
        return self.sign({name: value for name, value in (usual | claims).items() if value is not None})

    def sign(self, claims: dict[str, Any], algorithm: str = "ES256", key: Key | None = None, **header: Any) -> str:
        chosen = key or self.key
        named = {"alg": algorithm, "kid": chosen.kid, "typ": "JWT"} | header
        return jwt.encode({n: v for n, v in named.items() if v is not None}, claims, chosen, [algorithm])

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if path in self.answers:
            return self.answers[path]
        found = {DISCOVERY: self.document, KEYS: {"keys": self.keys}}.get(path)
        return (200, {}, json.dumps(found).encode()) if found is not None else (404, {}, b"")


@contextmanager
def running(host: str = "127.0.0.1", pair: tuple[Path, Path] | None = None, port: int = 0) -> Generator[Issuer]:
    """Run an issuer, by https if it has a certificate and its key, at a free port or at a given one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.is_asked.set()
            issuer.open.wait(60)
            status, headers, body = issuer.answer(self.path)
            accepted = self.headers.get("Accept", "*/*")
            if self.path == KEYS and "*/*" not in accepted and KEYS_TYPE not in accepted:
                status, body = 406, b""  # as Kubernetes does
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            issuer.posted.append(self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode())
            self.do_GET()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None: ...

    web = Server((host, port), Handler)
    if pair:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*pair)
        web.socket = context.wrap_socket(web.socket, server_side=True, do_handshake_on_connect=False)
    scheme, shown = ("https" if pair else "http"), "" if pair and port == 443 else f":{web.server_address[1]}"
    issuer = Issuer(f"{scheme}://{host}{shown}")
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        issuer.open.set()
        web.shutdown()
        web.server_close()
        thread.join(10)
