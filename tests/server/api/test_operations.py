"""The server answers for its health, its readiness, its figures and the description of its API."""

from pathlib import Path

import pytest

from terracrew import __version__
from tests.server.application import Application, metrics_headers
from tests.server.simulated_runner import SimulatedRunner


async def test_it_says_that_it_is_alive_and_ready(application: Application) -> None:
    stranger = application.stranger("192.0.2.1")
    assert (await stranger.get("/healthz")).json() == {"status": "ok"}
    assert (await stranger.get("/readyz")).json() == {"status": "ok"}


@pytest.mark.feature("T4.schema")
@pytest.mark.parametrize("name", ["server", "runner"])
async def test_editors_read_the_schemas_of_settings_without_a_login(application: Application, name: str) -> None:
    answer = await application.stranger("192.0.2.1").get(f"/schemas/{name}.json", headers={"Authorization": "Bearer x"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/schema+json")
    assert answer.headers["cache-control"] == "public, max-age=3600"
    assert answer.text + "\n" == (Path(__file__).parents[3] / "docs" / f"{name}.schema.json").read_text()
    assert (await application.stranger().get("/schemas/executor.json")).status_code == 404


async def test_monitors_may_ask_with_head(application: Application) -> None:
    """`HEAD /healthz` was answered with 405, so a monitor took a healthy server for a broken one."""
    for path in ("/healthz", "/readyz", "/login"):
        answer = await application.stranger("192.0.2.1").head(path)
        assert (answer.status_code, answer.content) == (200, b"")


async def test_it_is_not_ready_while_it_stops_or_its_database_is_away(application: Application) -> None:
    application.server.closing.set()
    assert (await application.stranger().get("/readyz")).status_code == 503
    application.server.closing.clear()
    await application.server.db.close()
    answer = await application.stranger().get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert (await application.stranger().get("/healthz")).status_code == 200


async def test_figures_are_for_those_with_a_token_and_no_address_is_enough(application: Application) -> None:
    """A proxy on the server's machine that sends no forwarding headers showed them to everybody."""
    await application.admin.get("/api/v1/groups")
    await application.admin.get("/nothing")
    given = metrics_headers(application.server)
    figures = (await application.stranger().get("/metrics", headers=given)).text
    assert 'terracrew_requests_total{method="GET",status="200"} 1.0' in figures
    assert 'terracrew_requests_total{method="GET",status="404"} 1.0' in figures
    for address in ("192.0.2.1", "127.0.0.1", "::1"):
        assert (await application.stranger(address).get("/metrics")).status_code == 401
        assert (await application.stranger(address).get("/metrics", headers=given)).status_code == 200
        assert (
            await application.stranger(address).get("/metrics", headers={"Authorization": "Bearer "})
        ).status_code == 401
        assert (await application.stranger(address).get("/api/v1/me", headers=given)).status_code == 401
    assert (await application.admin.get("/metrics")).status_code == 200


async def test_figures_of_the_whole_server_are_for_administrators_and_not_for_every_reader(
    runner: SimulatedRunner,
) -> None:
    """A user without a role, one of another organization, and the token in a module's environment read them."""
    application = runner.app
    for who in (
        await application.person("vera"),
        await application.person("olga", "owner"),
        await application.person("eve", "owner", "", "elsewhere"),
    ):
        assert "administer the server" in await who.refused("GET", "/metrics", 403)
    await (await runner.run()).engine.refused("GET", "/metrics", 404)


async def test_the_api_describes_itself_to_anybody(application: Application) -> None:
    schema = (await application.stranger().get("/schema/openapi.json")).json()
    assert (await application.stranger().get("/schema")).json() == schema
    assert (schema["info"]["title"], schema["info"]["version"]) == ("Terracrew", __version__)
    assert schema["openapi"].startswith("3.")
    paths = schema["paths"]
    assert paths.keys() >= {
        "/api/v1/groups",
        "/api/v1/modules/{module}",
        "/api/v1/runners/register",
        "/api/v1/archives",
    }
    body = paths["/api/v1/modules"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/NewModule"}
    new = schema["components"]["schemas"]["NewModule"]
    assert set(new["required"]) == {"path", "source"}
