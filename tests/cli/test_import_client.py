"""How an import reads a host of HCP Terraform that is busy, broken or hostile."""

import json
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from terracrew import errors
from terracrew.cli.commands.importing import hcp, hcp_reading, tfe_tokens
from terracrew.cli.commands.importing.tfe_client import TfeClient
from terracrew.cli.commands.importing.tfe_tokens import HostToken
from tests.client.scripted_server import Asked, ScriptedServer, running
from tests.e2e.hcp_site import hosts

pytestmark = pytest.mark.feature("P6.hcp")


@pytest.fixture
def other() -> Iterator[ScriptedServer]:
    with running() as found:
        yield found


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def client(server: ScriptedServer, waits: list[float]) -> TfeClient:
    return TfeClient(server.url, HostToken("the-token", "a test"), sleep=waits.append)


def answers(status: int, body: object = None, **headers: str) -> Callable[[Asked], None]:
    return lambda asked: asked.answer(status, body, **headers)


def cut(asked: Asked) -> None:
    """Announce more than is sent."""
    asked.handler.send_response(200)
    asked.handler.send_header("Content-Length", "1000")
    asked.handler.end_headers()
    asked.handler.wfile.write(b'{"data"')
    asked.hang_up()


WHOLE = answers(200, {"data": {"id": "ws-1", "type": "workspaces"}})


@pytest.mark.feature("P6.limits")
def test_a_host_that_limits_requests_is_asked_again_after_the_time_that_it_names(
    server: ScriptedServer, client: TfeClient, waits: list[float]
) -> None:
    moment = formatdate(time.time() + 30, usegmt=True)
    server.then(
        answers(429, Retry_After="7"), answers(429, X_RateLimit_Reset="0.5"), answers(429, Retry_After=moment), WHOLE
    )
    found = client.get("workspaces/ws-1")
    assert found is not None
    assert found.id == "ws-1"
    assert [wait >= least for wait, least in zip(waits, (7, 0.5, 25), strict=True)] == [True] * 3
    server.then(answers(429, Retry_After="7200"))
    with pytest.raises(errors.RateLimited, match="has refused too many requests"):
        client.get("workspaces/ws-1")
    assert len(waits) == 3, "nobody waits for two hours"


@pytest.mark.parametrize("trouble", [answers(500), answers(503), cut, lambda asked: asked.hang_up()])
def test_a_host_that_is_broken_for_a_moment_is_asked_again(
    server: ScriptedServer, client: TfeClient, trouble: Callable[[Asked], None]
) -> None:
    server.then(trouble, WHOLE)
    assert client.get("workspaces/ws-1") is not None


def test_a_host_that_stays_broken_ends_the_import(
    server: ScriptedServer, client: TfeClient, waits: list[float]
) -> None:
    server.then(*[answers(500)] * 5)
    with pytest.raises(errors.Unavailable, match="answers with status 500"):
        client.get("workspaces/ws-1")
    assert len(waits) == 4
    server.then(*[cut] * 5)
    with pytest.raises(errors.Unreachable, match="broke in the middle"):
        client.download("/state")


@pytest.mark.feature("P6.token")
def test_no_redirect_and_no_discovered_address_gets_the_token(
    server: ScriptedServer, other: ScriptedServer, client: TfeClient
) -> None:
    server.on("GET /.well-known/terraform.json", {"tfe.v2": f"{other.url}/api/v2/"})
    with pytest.raises(errors.Invalid, match="to which your token is not sent"):
        client.discover()
    other.on("GET /there?signature=s", {"version": 4})
    for status in (301, 302, 303, 307, 308):
        server.then(answers(status, Location=f"{other.url}/there?signature=s"))
        assert json.loads(client.download("/state")) == {"version": 4}
    assert {each.headers.get("Authorization") for each in other.asked} == {None}
    server.then(answers(302, Location=f"{other.url}/back"))
    other.routes["GET /back"] = answers(302, Location=f"{server.url}/home")
    server.on("GET /home", {"version": 4})
    client.download("/state")
    assert server.asked[-1].path == "/home"
    assert server.asked[-1].headers.get("Authorization") is None, "another host has chosen this address"
    server.then(*[answers(302, Location="/again")] * 6)
    with pytest.raises(errors.Invalid, match="redirects more than"):
        client.download("/state")
    other.then(answers(403))
    with pytest.raises(errors.Forbidden) as refused:
        client.download(f"{other.url}/there?signature=s")
    assert "signature" not in refused.value.message
    server.then(answers(404))
    with pytest.raises(
        errors.NotFound
    ) as missing:  # Terraform Enterprise has the signature in the path, on its own host
        client.download("/_archivist/v1/object/dmF1bHQ6djE6")
    assert "dmF1bHQ6" not in missing.value.message
    for address in ("file:///etc/passwd", f"http://user:word@{other.url.removeprefix('http://')}/there", "ftp://x/y"):
        with pytest.raises(errors.Invalid, match="cannot be requested"):
            client.download(address)


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"[1]", b'{"data": 5}', b"[" * 100_000])
def test_what_is_no_json_api_is_said(server: ScriptedServer, client: TfeClient, body: bytes) -> None:
    server.then(answers(200, body))
    with pytest.raises(errors.Invalid, match="is not JSON:API"):
        client.get("workspaces/ws-1")


def test_a_token_is_found_where_the_engines_find_it(home: Path) -> None:
    folder = home / ".terraform.d"
    folder.mkdir()
    content = {"credentials": {"app.terraform.io": {"token": "of-the-file"}}}
    (folder / "credentials.tfrc.json").write_text(json.dumps(content))
    environment = {"HOME": str(home)}
    assert tfe_tokens.find("app.terraform.io", None, environment).text == "of-the-file"
    environment["TF_TOKEN_app_terraform_io"] = "of-the-environment"
    assert tfe_tokens.find("app.terraform.io", None, environment).text == "of-the-environment"
    assert tfe_tokens.find("app.terraform.io", "given\n", environment).text == "given"
    assert tfe_tokens.variable("my-host.example.com") == "TF_TOKEN_my__host_example_com"
    with pytest.raises(errors.Unauthenticated, match=r"there is no token for tfe\.example"):
        tfe_tokens.find("tfe.example", None, environment)
    with pytest.raises(errors.Unauthenticated, match="characters that a token cannot have") as refused:
        tfe_tokens.find("tfe.example", "a\rInjected: b", environment)
    assert "Injected" not in refused.value.message
    assert "given" not in repr(tfe_tokens.find("app.terraform.io", "given", environment))


def test_many_workspaces_are_read_page_by_page_and_what_a_host_lacks_is_asked_for_once() -> None:
    with hosts() as site:
        for number in range(130):
            site.workspace(f"App {number}" if number else "app-1")
        for route in [each for each in site.server.routes if "team-workspaces" in each or "run-triggers" in each]:
            del site.server.routes[route]
        client = TfeClient(site.url, HostToken("t", "a test"))
        client.discover()
        found = hcp_reading.organization(client, "acme", ())
        assert len(found.workspaces) == 130
        assert found.remarks == (
            f"{client.host} does not tell, or not to this token: which teams may use a workspace, which runs start others",
        )
        asked = [each.path for each in site.server.asked if "run-triggers" in each.path]
        assert len(asked) <= hcp_reading.MAX_READING_TASKS
        plan = hcp.plan(found, "acme", "terraform")
        refused = [each.origin for each in plan.modules if each.problem]
        assert refused == ["app-1", "App 1"], "both would be app-1"
        some = hcp_reading.organization(client, "acme", ["App 2?"])
        assert len(some.workspaces) == 10


def test_what_a_host_tells_of_some_workspaces_only_is_named() -> None:
    """Where the first workspace told its teams and a later one did not, nothing said that they are missing."""
    with hosts() as site:
        site.workspace("first")
        second = site.workspace("second")
        for route in [each for each in site.server.routes if "team-workspaces" in each and second in each]:
            del site.server.routes[route]
        client = TfeClient(site.url, HostToken("t", "a test"))
        client.discover()
        found = hcp_reading.organization(client, "acme", ())
        assert found.remarks == (f"{client.host} does not tell, or not to this token: which teams may use a workspace",)
