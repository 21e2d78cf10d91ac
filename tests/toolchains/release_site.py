"""A release site on loopback, and programs that answer like an engine."""

import hashlib
import io
import stat
import sys
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pysequoia

from terracrew.toolchains import cache, specs

VERSION = specs.TOFU.version
FOLDER = f"/v{VERSION}"
ARCHIVE = f"{FOLDER}/tofu_{VERSION}_{'_'.join(cache.system())}.zip"
SUMS = f"{FOLDER}/tofu_{VERSION}_SHA256SUMS"
SIGNATURE = f"{SUMS}.gpgsig"

Answer = bytes | Callable[[BaseHTTPRequestHandler], None]


class ReleaseSite:
    """Serves what `files` holds and remembers what was asked for. It signs with a key of its own."""

    def __init__(self) -> None:
        self.key = pysequoia.Tsk.generate("publisher")
        self.certificate = self.key.extract_certificate()
        self.files: dict[str, Answer] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                answer = site.files.get(self.path)
                if answer is None:
                    self.send_error(404)
                elif isinstance(answer, bytes):
                    send(self, answer)
                else:
                    answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — as its base class calls it
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def publish(self, archive: bytes, *, digest: str | None = None, key: pysequoia.Tsk | None = None) -> None:
        self.files[ARCHIVE] = archive
        digest = digest or hashlib.sha256(archive).hexdigest()
        sums = f"{'0' * 64}  tofu_other.zip\n{digest}  {ARCHIVE.rpartition('/')[2]}\n".encode()
        self.files[SUMS] = sums
        self.files[SIGNATURE] = signature(key or self.key, sums)

    def publish_terraform(self, version: str, archive: bytes) -> None:
        name = f"terraform_{version}_{'_'.join(cache.system())}.zip"
        sums = f"{hashlib.sha256(archive).hexdigest()}  {name}\n".encode()
        folder = f"/{version}/terraform_{version}_SHA256SUMS"
        self.files |= {f"/{version}/{name}": archive, folder: sums, f"{folder}.sig": signature(self.key, sums)}


def signature(key: pysequoia.Tsk, content: bytes) -> bytes:
    return pysequoia.sign(key.signer(), content, mode=pysequoia.SignatureMode.DETACHED, armor=False)


def send(handler: BaseHTTPRequestHandler, body: bytes, length: int | None = None) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)


def program(version: str = VERSION, extra: str = "") -> bytes:
    """A program that answers `version -json`, and does `extra` first."""
    return f'#!{sys.executable} -IS\n{extra}\nprint(\'{{"terraform_version": "{version}"}}\')\n'.encode()


def put(folder: Path, name: str = "tofu", content: bytes | None = None) -> Path:
    """Put an executable into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(program() if content is None else content)
    path.chmod(0o755)
    return path


def zipped(entries: dict[str, bytes], *, symlink: str | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        if symlink:
            link = zipfile.ZipInfo(symlink)
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, "/etc/passwd")
    return buffer.getvalue()
