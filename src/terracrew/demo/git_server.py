"""Makes a git repository with a few versions of one sample, and serves it by https on loopback."""

import contextlib
import datetime
import gzip
import http.server
import ipaddress
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

from terracrew.errors import Conflict, EngineMissing, Unavailable

HOST = "127.0.0.1"
FIRST_PORT = 7450
_MAX_PORTS_TRIED = 50
_MAX_REQUEST_BYTES = 1 << 20
_CERTIFICATE_DAYS = 30
_SERVICE = "git-upload-pack"


class ServedRepository(NamedTuple):
    url: str
    environment: dict[str, str]
    """What git needs to trust the server, and to reach it without a proxy."""


@contextlib.contextmanager
def serving(repository: Path) -> Generator[ServedRepository]:
    """Serve a repository for reading. Its certificate is for this machine only, and is new each time."""
    # Not in the data directory of the server: the git of a runner is isolated from that.
    with tempfile.TemporaryDirectory(prefix="terracrew-demo-") as folder:
        certificate, key = _certificate(Path(folder))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        key.unlink()
        server = _bound(repository, tls)
        thread = threading.Thread(target=server.serve_forever, name="git server", daemon=True)
        thread.start()
        try:
            url = f"https://{HOST}:{server.server_address[1]}/{repository.name}.git"
            yield ServedRepository(url, _environment(Path(folder), certificate))
        finally:
            server.shutdown()
            server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, repository: Path, tls: ssl.SSLContext) -> None:
        super().__init__((HOST, port), _Handler)
        self.repository, self._tls = repository, tls

    def get_request(self) -> tuple[ssl.SSLSocket, tuple[str, int]]:
        connection, address = super().get_request()
        # The thread of the connection makes the handshake, so that one client cannot stop the others.
        return self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that goes away is not an error of the demo."""


class _Handler(http.server.BaseHTTPRequestHandler):
    """The smart protocol of git over http, for one repository and for reading only."""

    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]  (the class above declares a wider type)
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path != f"/{self.server.repository.name}.git/info/refs?service={_SERVICE}":
            self.send_error(404)
            return
        refs = self._git("--advertise-refs", given=b"")
        if "version=2" not in self.headers.get("Git-Protocol", ""):
            line = f"# service={_SERVICE}\n"
            refs = f"{len(line) + 4:04x}{line}0000".encode() + refs
        self._answer("advertisement", refs)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if self.path != f"/{self.server.repository.name}.git/{_SERVICE}" or not 0 < size <= _MAX_REQUEST_BYTES:
            self.send_error(404)
            self.close_connection = True
            return
        given = self.rfile.read(size)
        if self.headers.get("Content-Encoding") == "gzip":
            given = gzip.decompress(given)
        self._answer("result", self._git(given=given))

    def _git(self, *options: str, given: bytes) -> bytes:
        repository = str(self.server.repository)
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        env = kept | {
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        command = ["git", "upload-pack", "--stateless-rpc", *options, repository]
        return subprocess.run(command, env=env, input=given, capture_output=True, check=False).stdout

    def _answer(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"application/x-{_SERVICE}-{kind}")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name of the class above)
        pass


def _bound(repository: Path, tls: ssl.SSLContext) -> _Server:
    for port in range(FIRST_PORT, FIRST_PORT + _MAX_PORTS_TRIED):
        with contextlib.suppress(OSError):
            return _Server(port, repository, tls)
    raise Conflict(f"ports {FIRST_PORT} to {FIRST_PORT + _MAX_PORTS_TRIED - 1} are in use")


def _environment(folder: Path, certificate: Path) -> dict[str, str]:
    """Let git trust this server in addition to what it trusts otherwise."""
    known = (os.environ.get("GIT_SSL_CAINFO"), os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile)
    trusted = next((Path(each) for each in known if each and Path(each).is_file()), None)
    bundle = folder / "trusted.crt"
    bundle.write_bytes((trusted.read_bytes() if trusted else b"") + b"\n" + certificate.read_bytes())
    direct = ",".join(filter(None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), HOST)))
    return {"GIT_SSL_CAINFO": str(bundle), "no_proxy": direct, "NO_PROXY": direct}


def _certificate(folder: Path) -> tuple[Path, Path]:
    # Imported here: only the demo makes certificates, and every command would pay for it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Terracrew demo")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_CERTIFICATE_DAYS))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "server.crt", folder / "server.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


NAME = "infrastructure"
SAMPLE = "network"
VERSIONS = {
    "v1.0.0": ('["a", "b", "c"]', '["a", "b"]'),
    "v1.1.0": ("", ""),
    "v2.0.0": ("10.20.0.0/16", "10.40.0.0/16"),
}
"""The tags, and what is another text in the sample at each of them."""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
"""With fixed names and times, every demo makes the same commits. Otherwise the tags would have moved in the second one."""


def make(parent: Path) -> Path:
    """Make the repository anew below a folder, and return its folder. Raises EngineMissing without the program `git`."""
    if shutil.which("git") is None:
        raise EngineMissing(
            "one of the samples comes from a git repository, and there is no program `git` on PATH",
            hint="install it (Debian: apt-get install git) and try again",
        )
    folder = parent / NAME
    shutil.rmtree(folder, ignore_errors=True)
    (folder / SAMPLE).mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    text = (Path(__file__).with_name("samples") / SAMPLE / "main.tf").read_text()
    for tag, (old, new) in VERSIONS.items():
        (folder / SAMPLE / "main.tf").write_text(text.replace(old, new) if old else text)
        _git(folder, "add", "--all")
        _git(folder, "commit", "--quiet", "--message", f"Release {tag}")
        _git(folder, "tag", "--annotate", "--message", f"Release {tag}", tag)
    return folder


def _git(folder: Path, *arguments: str) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")} | _IDENTITY
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Unavailable(f"the repository of the demo cannot be made: git {arguments[0]}: {said}")
