"""A Gitea of our own, a real forge: built from its Go module and kept in the cache. Its repositories are in memory and its database is
SQLite, so it is there within seconds. It speaks https, as modules want it of git sources.

A build takes some minutes, once, and needs a C compiler for SQLite.
"""

import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from terracrew.toolchains import cache
from tests.machine.certificates import certificate
from tests.machine.platforms import go_modules

MODULE, VERSION = "code.gitea.io/gitea", "v1.24.0"
ADMINISTRATOR = "root"
_TAGS = "sqlite sqlite_unlock_notify"
_FOLDERS = ("options", "templates", "public")
"""What it reads beside the program. Its style sheets are not in the module, and only its pages need them."""
_START_SECONDS = 60.0
_SETTINGS = """
RUN_MODE = prod
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = {folder}
[server]
PROTOCOL = https
CERT_FILE = {folder}/tls.crt
KEY_FILE = {folder}/tls.key
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = https://localhost:{port}/
DISABLE_SSH = true
OFFLINE_MODE = true
STATIC_ROOT_PATH = {program}
APP_DATA_PATH = {folder}/data
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
[repository]
ROOT = {folder}/repositories
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = 0123456789
PASSWORD_HASH_ALGO = pbkdf2$10$50
[webhook]
ALLOWED_HOST_LIST = loopback
DELIVER_TIMEOUT = 5
[log]
MODE = console
LEVEL = Warn
[indexer]
ISSUE_INDEXER_TYPE = db
[service]
DISABLE_REGISTRATION = true
[cron]
ENABLED = false
"""


class Gitea:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    def find(self) -> str | None:
        """Return nothing: a Gitea that somebody else runs is not one to change."""

    def missing(self) -> str | None:
        if (home() / "gitea").exists():
            return None
        return next((f"{program} is not installed" for program in ("go", "gcc") if not shutil.which(program)), None)

    def prepare(self) -> None:
        with cache.locked("platforms-gitea", lambda: None) as workplace:
            if not (home() / "gitea").exists():
                _build(workplace)

    def join(self) -> str:
        """Start it, and return its address, the token of its administrator and the file with its certificate, with `#` between them."""
        self.prepare()
        memory = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="gitea-", dir=memory if memory.is_dir() else None))
        certificate(self._folder)
        port = _free_port()
        settings = self._folder / "app.ini"
        settings.write_text(_SETTINGS.format(folder=self._folder, program=home(), port=port))
        self._run("migrate")
        made = self._run(
            *("admin", "user", "create", "--admin", "--username", ADMINISTRATOR, "--password", "correct-horse-1"),
            *("--email", "root@example.com", "--access-token", "--access-token-scopes", "all"),
        )
        token = made.rpartition("created... ")[2].split()[0]
        log = (self._folder / "gitea.log").open("wb")
        self._process = subprocess.Popen(self._command("web"), stdout=log, stderr=log, env=self._environment())
        address, trusted = f"https://localhost:{port}", str(self._folder / "tls.crt")
        _wait(f"{address}/api/v1/version", trusted, self._process)
        return f"{address}#{token}#{trusted}"

    def leave(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            self._command(*arguments), env=self._environment(), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"gitea {arguments[0]}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        return done.stdout

    def _command(self, *arguments: str) -> list[str]:
        return [str(home() / "gitea"), *arguments, "--config", str(self._folder / "app.ini" if self._folder else "")]

    def _environment(self) -> dict[str, str]:
        home = str(self._folder)
        return {"HOME": home, "GITEA_WORK_DIR": home, "USER": "root", "PATH": "/usr/local/bin:/usr/bin:/bin"}


def home() -> Path:
    """Return the folder with the program, and with what it reads."""
    return cache.root() / "platforms" / f"gitea-{VERSION}"


def _build(workplace: Path) -> None:
    source = go_modules.copied(MODULE, VERSION, workplace / "gitea")
    made = go_modules.build(source, ".", workplace / "gitea-built", tags=_TAGS, has_c=True)
    partial = workplace / "gitea-home"
    for each in _FOLDERS:
        shutil.copytree(source / each, partial / each)
    made.replace(partial / "gitea")
    home().parent.mkdir(parents=True, exist_ok=True)
    partial.replace(home())


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def _wait(url: str, trusted: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until it answers. It has no other way to say so."""
    tls = ssl.create_default_context(cafile=trusted)
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5, context=tls):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("gitea has not started: its log is beside its repositories")
