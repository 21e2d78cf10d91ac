"""A hostile page in the browser of somebody who is logged in, hostile text on our own pages, and secrets where none belong."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import urllib3

from terracrew.client.address import segment
from terracrew.server.app import ROUTERS
from terracrew.server.http.request import App, Call
from terracrew.server.secrets.credentials import ANYWHERE
from tests.e2e.people import everything
from tests.e2e.system import System, eventually, running

pytestmark = pytest.mark.feature("X3.people")

PASSWORD = "correct horse battery"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
IMAGE = "<img src=x onerror=alert(1)>"
MARKUP = IMAGE + "\"'&{{7*7}}"


def _forms() -> list[str]:
    """Every form of the application, so that a new one is attacked as soon as it exists."""
    routes = App(ROUTERS, request_class=Call, openapi_config=None).routes
    posted = {route.path_format for route in routes if "POST" in getattr(route, "methods", ())}
    return sorted(path for path in posted if path.startswith("/dashboard/") or path == "/logout")


SPY = r"""
resource "terraform_data" "spy" {
  provisioner "local-exec" {
    command = <<-EOT
      for file in /proc/self/environ /proc/$PPID/environ; do
        tr '\0' '\n' < $file | grep -aoE '=tc[a-z]_' | sed 's/^/found-/'
        tr '\0' '\n' < $file | cut -d= -f1 | sed 's/^/variable-/'
      done
      echo 'IMAGE'
    EOT
  }
}
output "markup" { value = "IMAGE" }
""".replace("IMAGE", IMAGE)


class Browser:
    """Cookies and no more: what a page of another site can make a browser send."""

    def __init__(self, system: System) -> None:
        self.url = system.url
        self.cookie = ""

    def send(self, method: str, path: str, body: str | None = None, **headers: str) -> urllib3.BaseHTTPResponse:
        sent = {"Cookie": self.cookie} | (FORM if body is not None else {}) | headers
        return urllib3.request(method, self.url + path, body=body, headers=sent, redirect=False, retries=False)

    def log_in(self, to: str = "") -> urllib3.BaseHTTPResponse:
        form = urlencode({"name": "admin", "password": PASSWORD, "next": to})
        answer = self.send("POST", "/login", form)
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer

    def csrf(self) -> str:
        page = self.send("GET", "/dashboard/runners").data.decode()
        found = re.search(r'name="_csrf" value="(\w*\.[0-9a-f]{64})"', page)
        assert found is not None
        return found[1]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(Path(tmp_path_factory.mktemp("browser"))) as found:
        found.env["AWS_SECRET_ACCESS_KEY"] = "the server's own"
        found.starts_real_commands = True  # a test reads their arguments
        found.start_server(runner=True)
        # The rows of a runner that connects during a test would look like a change by that test.
        eventually(lambda: [each["status"] for each in found.api.list("/runners")] == ["ONLINE"], what="the runner")
        link = found.api.post("/me/link", {})["link"]
        form = urlencode({"password": PASSWORD, "again": PASSWORD})
        assert urllib3.request("POST", link, body=form, headers=FORM, redirect=False).status == 303
        yield found


@pytest.fixture
def browser(system: System) -> Browser:
    made = Browser(system)
    made.log_in()
    return made


def test_a_login_makes_a_session_of_its_own_in_a_cookie_that_scripts_and_other_sites_do_not_get(system: System) -> None:
    browser = Browser(system)
    browser.cookie = "terracrew_session=tcd_fixed-by-an-attacker"
    cookie = browser.log_in().headers["Set-Cookie"]
    assert "fixed" not in cookie
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    first = browser.cookie
    browser.log_in()
    assert browser.cookie != first


def test_a_cookie_alone_changes_nothing(system: System, browser: Browser) -> None:
    """Every changing operation of the API, and every form."""
    paths = urllib3.request("GET", f"{system.url}/schema/openapi.json").json()["paths"]
    changes = [(m.upper(), path) for path, methods in paths.items() for m in methods if m != "get"]
    attacks: list[dict[str, str]] = [
        {},
        {"X-CSRF-Token": "0" * 64},
        {"Origin": "http://evil.example", "X-CSRF-Token": browser.csrf()},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "X-CSRF-Token": browser.csrf()},
        {"Sec-Fetch-Site": "same-site", "X-CSRF-Token": browser.csrf()},
    ]
    forms = _forms()
    assert len(forms) > 40
    before = everything(system.data)
    for method, path in [*changes, *(("POST", form) for form in forms)]:
        if path in ("/connect/token", "/connect/device"):
            continue
        for attack in attacks:
            filled = re.sub(
                r"\{\w+\}", "x", path.replace("{attempt}", "1").replace("{index}", "1").replace("{step}", "plan")
            )
            answer = browser.send(method, filled, "a=b", **attack)
            assert answer.status == 403, (method, path, attack, answer.status)
    assert everything(system.data) == before


@pytest.mark.parametrize(
    "to",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/dashboard//evil.example",
        "/dashboard/\\evil.example",
        "javascript:alert(1)",
        "/dashboard/\r\nX-Injected: 1",
        "/login",
        "",
        "/dashboard.evil.example",
        "\t//evil.example",
    ],
)
def test_a_login_leads_to_our_own_pages_only(system: System, to: str) -> None:
    browser = Browser(system)
    for answer in (browser.log_in(to), browser.send("GET", f"/login?next={quote(to)}")):
        assert answer.status == 303
        assert f"{answer.headers['Location']}/".startswith("/dashboard/")
        assert "evil" not in answer.headers["Location"]
        assert "X-Injected" not in answer.headers


@pytest.fixture(scope="module")
def spied(system: System) -> str:
    """An apply whose engine looks for secrets and prints markup."""
    system.module("spy", SPY, description=MARKUP, inputs={})
    job = system.wait(system.run("spy", "APPLY"))
    assert job["status"] == "SUCCEEDED", system.log(job["id"])
    return job["id"]


@pytest.mark.engine
def test_markup_in_descriptions_outputs_and_logs_stays_text(system: System, browser: Browser, spied: str) -> None:
    system.api.post("/runners", {"name": "marked", "description": MARKUP})
    system.api.post("/tokens", {"name": MARKUP})
    search = quote(MARKUP)
    for path in (
        "/dashboard",
        "/dashboard/modules",
        f"/dashboard/modules?q={search}",
        "/dashboard/runners",
        f"/dashboard/runners?q={search}",
        "/dashboard/jobs",
        f"/dashboard/jobs?module={search}",
        f"/dashboard/jobs?status={search}",
        f"/dashboard/jobs/{spied}",
        f"/dashboard/jobs/{segment(MARKUP)}",
        f"/login?next={search}",
    ):
        page = browser.send("GET", path)
        assert page.status < 500
        assert IMAGE not in page.data.decode()
        assert ">49<" not in page.data.decode()
    assert "&lt;img src=x" in browser.send("GET", f"/dashboard/jobs/{spied}").data.decode()
    log = browser.send("GET", f"/api/v1/jobs/{spied}/log")
    assert IMAGE.encode() in log.data
    assert log.headers["Content-Type"].startswith("text/plain")


@pytest.mark.engine
@pytest.mark.feature("X4.engine")
def test_an_engine_is_given_its_own_token_and_nothing_else_of_ours(system: System, spied: str) -> None:
    log = system.log(spied)
    assert set(re.findall(r"found-(=\S+)", log)) == {"=tcj_"}
    variables = set(re.findall(r"variable-(\w+)", log))
    assert "TF_HTTP_PASSWORD" in variables
    assert "AWS_SECRET_ACCESS_KEY" not in variables, "the built-in runner's engines get an allow-list"
    assert {name for name in variables if name.startswith("TERRACREW_")} <= {
        "TERRACREW_ENDPOINT",
        "TERRACREW_GROUP_PATH",
    }
    assert not ANYWHERE.search(log)


@pytest.mark.engine
@pytest.mark.feature("X4.engine")
def test_no_secret_is_in_a_process_list_or_a_log(system: System, spied: str) -> None:
    assert spied
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(system.directory) in arguments:
            assert not ANYWHERE.search(arguments)
    printed = system.directory.joinpath("server.log").read_text()
    # The one-time link is for the person at the terminal.
    assert {secret[:4] for secret in ANYWHERE.findall(printed)} <= {"tcl_"}
    for file in ("admin.token", "master.key", "terracrew.db"):
        assert (system.data / file).stat().st_mode & 0o077 == 0
    assert system.data.stat().st_mode & 0o077 == 0
