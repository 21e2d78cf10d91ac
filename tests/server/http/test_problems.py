"""Every error is answered in words with a stable code, and shows nothing internal."""

import logging
from typing import Any

import httpx
import pytest

from tests.server.application import Application, on_one

GROUPS = "/api/v1/groups"


def problem(answer: httpx.Response) -> dict[str, Any]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found.keys() >= {"type", "title", "status", "detail", "code"}
    assert found["status"] == answer.status_code
    return found


@on_one
async def test_an_unknown_address_and_a_wrong_method_are_problems(application: Application) -> None:
    found = problem(await application.admin.get("/api/v1/unicorns"))
    assert (found["status"], found["code"]) == (404, "not_found")
    answer = await application.admin.put(GROUPS, json={"path": "a"})
    found = problem(answer)
    assert (found["status"], found["code"]) == (405, "method_not_allowed")
    assert {method.strip() for method in answer.headers["Allow"].split(",")} >= {"GET", "POST"}


@on_one
@pytest.mark.parametrize(
    ("body", "words", "field"),
    [
        (b'{"path": 1}', "path: Expected `str`, got `int`", "path"),
        (b'{"path": null}', "path: Expected `str`, got `null`", "path"),
        (b'{"path": "a", "color": "red"}', "unknown field `color`", None),
        (b'{"description": "x"}', "missing required field `path`", None),
        (b'["a"]', "Expected `object`, got `array`", None),
        (b'{"path": "a"', "not valid JSON", None),
        (b"{'path': 'a'}", "not valid JSON", None),
        (b"\xff\xfe", "not valid JSON", None),
        (b"", "a JSON body is expected", None),
    ],
)
async def test_a_body_of_the_wrong_shape_is_refused_with_its_place(
    application: Application, body: bytes, words: str, field: str | None
) -> None:
    answer = await application.admin.post(GROUPS, content=body, headers={"Content-Type": "application/json"})
    found = problem(answer)
    assert (found["status"], found["code"]) == (400, "invalid")
    assert words in found["detail"]
    assert found.get("field") == field
    assert await application.scalar("SELECT count(*) FROM groups") == 1


@on_one
async def test_a_body_that_does_not_say_it_is_json_is_refused(application: Application) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = await application.admin.post(GROUPS, content=b'{"path": "a"}', headers={"Content-Type": kind})
        assert "Content-Type: application/json" in problem(answer)["detail"]


@on_one
async def test_a_body_of_50_mb_is_refused(application: Application) -> None:
    body = b'{"path": "' + b"a" * 50_000_000 + b'"}'
    answer = await application.admin.post(GROUPS, content=body, headers={"Content-Type": "application/json"})
    assert problem(answer)["code"] == "too_large"

    async def chunks() -> Any:  # without a Content-Length that would give it away
        for start in range(0, len(body), 1 << 16):
            yield body[start : start + (1 << 16)]

    answer = await application.admin.post(GROUPS, content=chunks(), headers={"Content-Type": "application/json"})
    assert problem(answer)["code"] == "too_large"
    assert await application.scalar("SELECT count(*) FROM groups") == 1


@on_one
async def test_a_stranger_is_told_to_log_in(application: Application) -> None:
    answer = await application.stranger().get(GROUPS)
    assert problem(answer)["code"] == "unauthenticated"
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


async def test_what_nobody_expected_gets_a_number_and_gives_nothing_away(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    await application.server.db.write(lambda tx: tx.run("ALTER TABLE groups RENAME TO secret_name"))
    with caplog.at_level(logging.ERROR):
        found = problem(await application.admin.get(GROUPS))
    assert (found["status"], found["code"]) == (500, "internal")
    assert found["error"] in found["detail"]
    assert "groups" not in str(found)
    logged = [record for record in caplog.records if found["error"] in record.getMessage()]
    assert len(logged) == 1
    assert logged[0].exc_info is not None


@on_one
async def test_every_answer_is_hardened(application: Application) -> None:
    answers = [await application.admin.get(path) for path in (GROUPS, "/nothing", "/healthz", "/schema/openapi.json")]
    answers.append(await application.stranger().get(GROUPS))
    for answer in answers:
        headers = answer.headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"
        assert "Server" not in headers
