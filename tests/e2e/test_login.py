"""The real `terracrew login` and `logout` against a real server, with a browser on the machine and with one elsewhere."""

import json
import os
import pty
import re
import signal
import stat
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.e2e.system import Process, System, eventually, running

PASSWORD = "correct horse battery"
PAGE = re.compile(r"http://127\.0\.0\.1:\d+/dashboard/terminal-login\?\S+")
CODE = re.compile(r"type\s+the\s+code\s+([A-Z]{4}-[A-Z]{4})")
pytestmark = [pytest.mark.timeout(120), pytest.mark.feature("E1.commands")]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(tmp_path_factory.mktemp("system")) as found:
        found.start_server(runner=False)
        yield found


@pytest.fixture(scope="module")
def browser(system: System) -> Iterator[httpx.Client]:
    """A browser in which the administrator is logged in."""
    with httpx.Client(base_url=system.url) as found:
        link = re.search(r"/login/link/(tcl_[\w-]+)", (system.directory / "server.log").read_text())
        assert link is not None
        entered = found.post(f"/login/link/{link[1]}", data={"password": PASSWORD, "again": PASSWORD})
        assert entered.status_code == 303, entered.text
        yield found


class Machine:
    """A home directory, from which somebody logs in. Its browser writes down which address it is to open."""

    def __init__(self, system: System, home: Path) -> None:
        home.mkdir()
        self._system, self._home, self._count = system, home, 0
        opener = home / "browser"
        opener.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> {home}/opened\n')
        opener.chmod(0o755)
        self.file = home / "config.toml"
        own = {
            "HOME": str(home),
            "USER": "ada",
            "LOGNAME": "ada",
            "TERRACREW_CONFIG": str(self.file),
            "BROWSER": str(opener),
        }
        self.env = {name: value for name, value in system.env.items() if name != "DISPLAY"} | own

    def start(self, *arguments: str, env: dict[str, str] | None = None) -> "Started":
        self._count += 1
        name = f"{self._home.parent.name}-{self._count}"
        given = ["--url", self._system.url, *arguments]
        return Started(self._system.start(name, given, self.env | (env or {})), self._system.directory / f"{name}.log")

    def opened(self, count: int = 1) -> str:
        """The address that the browser was told to open, the first time or another one."""
        return eventually(lambda: self.all_opened()[count - 1 : count], what="the browser")[0]

    def all_opened(self) -> list[str]:
        file = self._home / "opened"
        return file.read_text().split() if file.exists() else []

    @property
    def stored(self) -> dict[str, Any]:
        return tomllib.loads(self.file.read_text())["profiles"]["default"] if self.file.exists() else {}


class Started:
    def __init__(self, process: Process, log: Path) -> None:
        self.process, self._log = process, log

    @property
    def said(self) -> str:
        return self._log.read_text()

    def ended(self, code: int) -> str:
        assert self.process.wait(60) == code, self.said
        return self.said

    def code(self) -> str:
        """The code that it shows the person."""
        return eventually(lambda: CODE.search(self.said), what="the code")[1]


@pytest.fixture
def machine(system: System, tmp_path: Path) -> Machine:
    return Machine(system, tmp_path / "home")


def fields_of(text: str) -> dict[str, str]:
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', text))
    name = re.search(r'<input id="name" name="name" value="([^"]*)"', text)
    return fields | ({"name": name[1]} if name else {}) | {"days": "30"}


def answer(browser: httpx.Client, address: str, decision: str = "allow") -> str:
    """Open the page and answer it; return where the browser is sent."""
    page = browser.get(address)
    assert page.status_code == 200, page.text
    sent = browser.post("/dashboard/terminal-login", data=fields_of(page.text) | {"decision": decision})
    assert sent.status_code == 303, sent.text
    return sent.headers["Location"]


def answer_code(browser: httpx.Client, code: str, decision: str = "allow") -> None:
    typed = browser.post("/dashboard/device", data=fields_of(browser.get("/dashboard/device").text) | {"code": code})
    assert typed.status_code == 200, typed.text
    sent = browser.post("/dashboard/device", data=fields_of(typed.text) | {"decision": decision})
    assert sent.status_code == 200, sent.text


def is_valid(system: System, token: str) -> bool:
    return httpx.get(f"{system.url}/api/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_a_browser_logs_this_machine_in_again_and_out(system: System, browser: httpx.Client, machine: Machine) -> None:
    login = machine.start("login", "--browser", "--json")
    back = httpx.get(answer(browser, machine.opened()))
    assert (back.status_code, "Go back to the terminal" in back.text) == (200, True)
    said = login.ended(0)
    assert '"name": "admin"' in said
    first = machine.stored
    assert is_valid(system, first["token"])
    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o600
    assert first["token"] not in said + (system.directory / "server.log").read_text()
    me = {"Authorization": f"Bearer {first['token']}"}
    (token,) = [
        each
        for each in httpx.get(f"{system.url}/api/v1/tokens", headers=me).json()["items"]
        if each["id"] == first["token_id"]
    ]
    assert (token["name"].startswith("terracrew on ada@"), token["is_cli_login"]) == (True, True)
    # The person gives the next one another name, so that the server cannot know which token it replaces.
    again = machine.start("login", "--browser")
    page = browser.get(machine.opened(2))
    sent = browser.post("/dashboard/terminal-login", data=fields_of(page.text) | {"decision": "allow", "name": "other"})
    httpx.get(sent.headers["Location"])
    again.ended(0)
    assert not is_valid(system, first["token"])
    assert is_valid(system, machine.stored["token"])
    second = machine.stored["token"]
    assert "revoked" in machine.start("logout").ended(0)
    assert not is_valid(system, second)
    assert machine.stored.keys() == {"url"}


def test_only_the_answer_to_this_login_counts_at_the_port(
    system: System, browser: httpx.Client, machine: Machine
) -> None:
    login = machine.start("login", "--browser")
    page = machine.opened()
    asked = parse_qs(urlsplit(page).query)
    port = asked["redirect_uri"][0]
    state = asked["state"][0]
    for query in (
        {"code": "tca_x", "state": "other"},
        {"code": "tca_x"},
        {"state": state},
        {"code": "x", "error": "y", "state": state},
    ):
        assert httpx.get(port, params=query).status_code == 400
    assert httpx.get(port.replace("/callback", "/login"), params={"code": "x", "state": state}).status_code == 404
    assert login.process.poll() is None
    httpx.get(answer(browser, page))
    login.ended(0)
    assert is_valid(system, machine.stored["token"])


def test_nothing_is_stored_when_the_answer_is_no_or_never_comes(browser: httpx.Client, machine: Machine) -> None:
    denied = machine.start("login", "--browser")
    assert "The login was denied" in httpx.get(answer(browser, machine.opened(), "deny")).text
    assert "was denied in the browser" in denied.ended(3)
    assert "nobody answered in the browser within 1 s" in machine.start("login", "--browser", "--timeout", "1").ended(
        13
    )
    stopped = machine.start("login", "--browser")
    port = parse_qs(urlsplit(machine.opened(3)).query)["redirect_uri"][0]
    stopped.process.kill(signal.SIGINT)
    stopped.ended(130)
    with pytest.raises(httpx.ConnectError):
        httpx.get(port)
    wrong = machine.start("login", "--browser")
    asked = parse_qs(urlsplit(machine.opened(4)).query)
    httpx.get(asked["redirect_uri"][0], params={"code": "tca_made-up", "state": asked["state"][0]})
    assert "used up, expired or wrong" in wrong.ended(3)
    assert machine.stored == {}


def test_a_machine_without_a_browser_shows_a_code(system: System, browser: httpx.Client, machine: Machine) -> None:
    login = machine.start("login", "--no-browser", "--json")
    answer_code(browser, login.code())
    said = login.ended(0)
    assert json.loads(said[said.index("{") :])["name"] == "admin"
    assert is_valid(system, machine.stored["token"])
    without = machine.start("login", "--browser", env={"BROWSER": "/nowhere"})
    assert "no browser could be opened" in without.ended(1)
    denied = machine.start("login", "--no-browser")
    answer_code(browser, denied.code(), "deny")
    assert "was denied in the browser" in denied.ended(3)
    assert is_valid(system, machine.stored["token"]), "the token of the earlier login stays"
    late = machine.start("login", "--no-browser", "--timeout", "1")
    assert "nobody typed the code" in late.ended(13)
    stopped = machine.start("login", "--no-browser")
    stopped.code()
    stopped.process.kill(signal.SIGINT)
    stopped.ended(130)


def test_of_two_logins_at_the_same_time_the_stored_one_is_valid(
    system: System, browser: httpx.Client, machine: Machine
) -> None:
    logins = [machine.start("login", "--browser") for _ in range(2)]
    machine.opened(2)
    targets = [answer(browser, each) for each in machine.all_opened()]
    visits = [threading.Thread(target=httpx.get, args=(each,)) for each in targets]
    for each in visits:
        each.start()
    for each in visits:
        each.join(30)
    assert [each.process.wait(60) for each in logins] == [0, 0], [each.said for each in logins]
    assert is_valid(system, machine.stored["token"])


def test_somebody_who_types_the_command_over_ssh_gets_a_code(system: System, machine: Machine) -> None:
    """On a real terminal, without an option."""
    pid, terminal = pty.fork()
    if pid == 0:
        env = {name: value for name, value in machine.env.items() if name != "BROWSER"} | {"SSH_CONNECTION": "x"}
        os.execve(sys.executable, [sys.executable, "-P", "-m", "terracrew.cli", "--url", system.url, "login"], env)
    said = b""
    try:
        end = time.monotonic() + 60
        while not CODE.search(said.decode(errors="replace")) and time.monotonic() < end:
            said += os.read(terminal, 4096)
    finally:
        os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert CODE.search(said.decode())
    assert os.waitstatus_to_exitcode(status) == 130
    assert machine.stored == {}
