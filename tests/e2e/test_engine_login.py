"""The real `tofu login` against a real server behind TLS: a person allows it, and what it stores works until it is revoked."""

import contextlib
import json
import re
import ssl
import subprocess
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.e2e.system import System, eventually
from tests.e2e.tls_front import TlsFront

PASSWORD = "correct horse battery"
PAGE = re.compile(r"https://localhost:\d+/dashboard/terminal-login\?\S+")


CLOUD = """
terraform {
  cloud {
    hostname     = "HOST"
    organization = "default"
    workspaces { name = "app" }
  }
}
"""


@pytest.fixture
def front(system: System, tmp_path: Path) -> Generator[TlsFront]:
    with TlsFront(tmp_path, system.port).running() as made:
        system.env["TERRACREW_SERVER_PUBLIC_URL"] = f"https://localhost:{made.port}"
        yield made


def logged_in(system: System, front: TlsFront) -> httpx.Client:
    """A browser in which the administrator is logged in, over https."""
    trusted = ssl.create_default_context(cafile=front.certificate)
    browser = httpx.Client(base_url=f"https://localhost:{front.port}", verify=trusted)
    link = re.search(r"/login/link/(tcl_[\w-]+)", (system.directory / "server.log").read_text())
    assert link is not None
    entered = browser.post(f"/login/link/{link[1]}", data={"password": PASSWORD, "again": PASSWORD})
    assert entered.status_code == 303, entered.text
    return browser


class Terminal:
    """Runs `tofu login` as somebody types it, on a machine without a browser."""

    def __init__(self, tofu: str, home: Path, front: TlsFront) -> None:
        home.mkdir(exist_ok=True)
        self.stored = home / ".terraform.d" / "credentials.tfrc.json"
        self._output = home / "output"
        self._tofu = tofu
        self._command = [tofu, "login", "-no-color", f"localhost:{front.port}"]
        self._env = {"PATH": "/nowhere", "HOME": str(home), "SSL_CERT_FILE": str(front.certificate)}

    @contextlib.contextmanager
    def login(self) -> Generator[subprocess.Popen[str]]:
        with self._output.open("w") as out:
            process = subprocess.Popen(
                self._command, env=self._env, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True
            )
        assert process.stdin is not None
        try:
            process.stdin.write("yes\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()
            process.wait(10)
            process.stdin.close()

    def run(self, command: str, at: Path) -> str:
        """Run another command in a directory with what the login has stored, and return what it printed."""
        done = subprocess.run(
            [self._tofu, command, "-no-color"], env=self._env, cwd=at, text=True, capture_output=True, timeout=60
        )
        return done.stdout + done.stderr

    def page(self) -> str:
        """The address that it prints for the person to open."""
        return eventually(lambda: PAGE.search(self.printed()), what="the address of the page")[0]

    def printed(self) -> str:
        return self._output.read_text()


def answer(browser: httpx.Client, address: str, decision: str) -> str:
    """Open the page and answer it; return where the browser is sent."""
    page = browser.get(address)
    assert page.status_code == 200, page.text
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.text))
    sent = browser.post(
        "/dashboard/terminal-login", data=fields | {"decision": decision, "name": "laptop", "days": "30"}
    )
    assert sent.status_code == 303, sent.text
    return sent.headers["Location"]


@pytest.mark.timeout(120)
@pytest.mark.feature("K1")
def test_the_real_login_stores_a_token_that_works_until_it_is_revoked(
    system: System, front: TlsFront, tofu: str, tmp_path: Path
) -> None:
    server = system.start_server(runner=False)
    browser, terminal = logged_in(system, front), Terminal(tofu, tmp_path / "home", front)
    with terminal.login() as process:
        back = httpx.get(answer(browser, terminal.page(), "allow"), timeout=10)
        assert back.status_code == 200, back.text
        assert process.wait(30) == 0, terminal.printed()
    stored = json.loads(terminal.stored.read_text())["credentials"][f"localhost:{front.port}"]["token"]
    headers = {"Authorization": f"Bearer {stored}"}
    (tmp_path / "module").mkdir()
    (tmp_path / "module" / "main.tf").write_text(CLOUD.replace("HOST", f"localhost:{front.port}"))
    assert "successfully initialized" in terminal.run("init", at=tmp_path / "module"), "by the discovery document"
    stranger = httpx.Client(
        base_url=f"https://localhost:{front.port}", verify=ssl.create_default_context(cafile=front.certificate)
    )
    assert stranger.get("/api/v1/me", headers=headers).json()["name"] == "admin"
    (token,) = [
        each for each in stranger.get("/api/v1/tokens", headers=headers).json()["items"] if each["name"] == "laptop"
    ]
    assert token["is_engine_login"] is True
    assert stranger.delete(f"/api/v1/tokens/{token['id']}", headers=headers).status_code == 204
    assert stranger.get("/api/v1/me", headers=headers).status_code == 401
    assert "unauthorized" in terminal.run("plan", at=tmp_path / "module").lower()
    code = dict(httpx.URL(str(back.url)).params)["code"]
    log = server.log.read_text()
    assert stored not in log
    assert code not in log


@pytest.mark.timeout(120)
def test_the_real_login_stores_nothing_that_was_denied(
    system: System, front: TlsFront, tofu: str, tmp_path: Path
) -> None:
    system.start_server(runner=False)
    browser, terminal = logged_in(system, front), Terminal(tofu, tmp_path / "home", front)
    with terminal.login() as process:
        back = httpx.get(answer(browser, terminal.page(), "deny"), timeout=10)
        assert "error=access_denied" in str(back.url)
        assert process.poll() is None, "the engine waits until somebody stops it"
    assert not terminal.stored.exists()
    assert list((tmp_path / "home").rglob("credentials*")) == []
