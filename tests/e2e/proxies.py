"""Real reverse proxies in front of a server: nginx and Caddy from apt, with their own ports and directories."""

import contextlib
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

from tests.e2e.system import eventually, free_port
from tests.machine.certificates import certificate
from tests.machine.needs import need

DEPLOY = Path(__file__).parents[2] / "deploy"
MINIMAL = """
server {
    listen 127.0.0.1:@PORT@;
    location / {
        proxy_pass http://127.0.0.1:@SERVER@;
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection "upgrade";
    }
}
"""
"""What people write first: nginx with all of its default limits."""


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    need(None if found else f"no {name} here")
    assert found is not None
    return found


@contextlib.contextmanager
def minimal_nginx(directory: Path, server_port: int) -> Generator[str]:
    port = free_port()
    site = MINIMAL.replace("@PORT@", str(port)).replace("@SERVER@", str(server_port))
    with _nginx(directory, site, port):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def recommended_nginx(directory: Path, server_port: int) -> Generator[str]:
    port, other = free_port(), free_port()
    crt, key = certificate(directory)
    site = _changed(
        (DEPLOY / "nginx" / "terracrew.conf").read_text(),
        {
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "    listen [::]:443 ssl http2;\n": "",
            "listen 80;": f"listen 127.0.0.1:{other};",
            "    listen [::]:80;\n": "",
            "server_name terracrew.example.com": "server_name localhost",
            "127.0.0.1:7400": f"127.0.0.1:{server_port}",
            "/etc/nginx/tls/terracrew.crt": str(crt),
            "/etc/nginx/tls/terracrew.key": str(key),
        },
    )
    with _nginx(directory, site, port):
        yield f"https://localhost:{port}"


@contextlib.contextmanager
def recommended_caddy(directory: Path, server_port: int) -> Generator[str]:
    port = free_port()
    crt, key = certificate(directory)
    site = _changed(
        (DEPLOY / "caddy" / "Caddyfile").read_text(),
        {
            "terracrew.example.com {": f"https://localhost:{port} {{\n\tbind 127.0.0.1\n\ttls {crt} {key}",
            "127.0.0.1:7400": f"127.0.0.1:{server_port}",
        },
    )
    file = directory / "Caddyfile"
    file.write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + site)
    environment = {"HOME": str(directory), "XDG_DATA_HOME": str(directory), "XDG_CONFIG_HOME": str(directory)}
    arguments = [program("caddy"), "run", "--config", str(file), "--adapter", "caddyfile"]
    with _running(arguments, directory / "caddy.log", port, environment):
        yield f"https://localhost:{port}"


def _changed(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, f"the recommended configuration has no {old!r} any more"
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def _nginx(directory: Path, site: str, port: int) -> Generator[None]:
    (directory / "site.conf").write_text(site)
    paths = "".join(
        f"    {name}_temp_path {directory}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = directory / "nginx.conf"
    main.write_text(
        f"pid {directory}/nginx.pid;\ndaemon off;\nworker_processes 1;\nuser root;\nevents {{}}\n"
        f"http {{\n    access_log {directory}/access.log;\n{paths}    include {directory}/site.conf;\n}}\n"
    )
    arguments = [program("nginx"), "-p", str(directory), "-c", str(main), "-e", str(directory / "error.log")]
    with _running(arguments, directory / "nginx.log", port, {}):
        yield


@contextlib.contextmanager
def _running(arguments: list[str], log: Path, port: int, environment: dict[str, str]) -> Generator[None]:
    with log.open("ab") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment)
    try:
        eventually(lambda: _listens(process, log, port), within=20, what=f"{arguments[0]} on port {port}")
        yield
    finally:
        process.terminate()
        process.wait(20)


def _listens(process: "subprocess.Popen[bytes]", log: Path, port: int) -> bool:
    import socket

    if process.poll() is not None:
        raise RuntimeError(log.read_text())
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
