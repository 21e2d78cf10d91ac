"""The description of the API is complete, readable, and agrees with the command line."""

import re
from typing import Any

import click
import pytest

from terracrew.cli.main import cli
from terracrew.server.dashboard import api_reference as apidocs
from terracrew.server.openapi.commands import COMMANDS, WITHOUT_COMMAND
from tests.server.application import Application, on_one

INLINE = re.compile(r"<script(?![^>]* src=)|<style|\s(?:style|on[a-z]+)\s*=", re.IGNORECASE)


async def document(application: Application) -> dict[str, Any]:
    answer = await application.stranger("192.0.2.1").get("/openapi.json")
    assert answer.status_code == 200
    return answer.json()


def operations(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": each for path, methods in found["paths"].items() for method, each in methods.items()
    }


@on_one
async def test_the_api_is_found_where_people_look_for_it(application: Application) -> None:
    """`/api` and `/openapi.json` were answered with 404, and nothing linked to the document."""
    found = await document(application)
    assert found["info"]["description"].startswith("Everything that the dashboard")
    answer = await application.stranger("192.0.2.1").get("/api")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not INLINE.search(answer.text)
    assert 'href="/openapi.json"' in answer.text
    for each in operations(found).values():
        assert f'id="{each["operationId"]}"' in answer.text, each["summary"]


@on_one
async def test_each_operation_says_in_words_what_it_does(application: Application) -> None:
    """Summaries read like "RunJob", and 25 of 59 operations had no description."""
    found = operations(await document(application))
    for name, each in found.items():
        words = each["summary"].split()
        assert len(words) >= 2, f"{name}: {each['summary']!r} is not a sentence"
        assert words[0][0].isupper(), name
        assert not re.search(r"[a-z][A-Z]", each["summary"].replace("OpenID", "")), name
        assert (each.get("description") or "").strip(), f"{name} has no description"
    ids = [each["operationId"] for each in found.values()]
    assert len(set(ids)) == len(ids)


@pytest.mark.feature("E1.commands")
@on_one
async def test_whatever_the_api_can_do_is_a_command_as_well(application: Application) -> None:
    found = operations(await document(application))
    unnamed = found.keys() - COMMANDS.keys() - WITHOUT_COMMAND.keys()
    assert not unnamed, "name the command for each in terracrew/server/openapi/commands.py"
    assert not (COMMANDS.keys() | WITHOUT_COMMAND.keys()) - found.keys(), "commands of operations that are gone"
    missing = [line for line in sorted(set(COMMANDS.values())) if not is_command(line)]
    assert missing == []


def is_command(line: str) -> bool:
    """Whether the words name a command, and the options are ones that it has."""
    command: click.Command = cli
    for word in line.split():
        if word.startswith("--"):
            if not any(word in each.opts for each in command.params):
                return False
            continue
        context = click.Context(command, info_name=word)
        inner = command.get_command(context, word) if isinstance(command, click.Group) else None
        if inner is None:
            return False
        command = inner
    return not isinstance(command, click.Group)


@on_one
async def test_fields_are_described_as_they_are_in_the_code(application: Application) -> None:
    found = await document(application)
    schemas = found["components"]["schemas"]
    assert schemas["NewModule"]["properties"]["runner"]["description"].startswith("Id or path of the one runner")
    assert "PageOfJobListed" in schemas
    sections = {each.name: each for each in apidocs.sections(found)}
    create = next(each for each in sections["modules"].operations if each.summary == "Create a module")
    fields = {each.name: each for each in create.body}
    assert fields["path"].is_required
    assert schemas["NewModule"]["properties"]["engine"]["maxLength"] == 32
    assert fields["backend"].choices == ["terracrew", "own"]
    assert "terracrew module create" in create.command
    assert '"path":"<…>"' in create.example


@on_one
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("modules?recusive=true", "no query parameter 'recusive' here: did you mean 'recursive'?"),
        (
            "jobs?page=2",
            "no query parameter 'page' here: it takes active, after, limit, module, runner, since, status, type, until, who",
        ),
        ("me?verbose=1", "no query parameter 'verbose' here: it takes none"),
        ("jobs?" + "x" * 500 + "=1", "x…' here"),
    ],
)
async def test_an_unknown_query_parameter_is_refused(application: Application, query: str, words: str) -> None:
    """`?recusive=true` was ignored, and the answer looked like a right one."""
    assert words in await application.admin.refused("GET", f"/api/v1/{query}", 400)


@on_one
async def test_an_error_about_an_enumeration_names_its_values(application: Application) -> None:
    """The error was "Invalid enum value 'on'", and one had to guess what is possible."""
    words = await application.admin.refused("GET", "/api/v1/runners?status=on", 400)
    assert words == "status: 'on' is not one of ONLINE, OFFLINE, DRAINING, ASLEEP, WAKING"
    words = await application.admin.refused("GET", "/api/v1/jobs/1/log?format=pdf", 400)
    assert words == "format: 'pdf' is not one of events, text"
    body = {"principal": "x", "role": "VIEWER", "kind": "planet"}
    words = await application.admin.refused("POST", "/api/v1/roles", 400, json=body)
    assert "is not one of" in words
    source = {"path": "x", "source": {"kind": "svn"}}
    words = await application.admin.refused("POST", "/api/v1/modules", 400, json=source)
    assert words.startswith("source.kind: 'svn' is not one of ")
    assert "local" in words
    body = {"path": "x", "limits": {"step_seconds": {"fly": 3}}}
    words = await application.admin.refused("POST", "/api/v1/groups", 400, json=body)
    assert words.startswith("limits.step_seconds: 'fly' is not one of fetch, "), 'the error named a place "key` in `$"'


@on_one
async def test_errors_have_one_shape(application: Application) -> None:
    """Some errors had `errors`, some `field`, and the token endpoint had neither `detail` nor `status`."""
    answers = [
        await application.admin.get("/api/v1/nothing"),
        await application.admin.put("/api/v1/groups"),
        await application.admin.get("/api/v1/jobs?status=x"),
        await application.admin.post("/api/v1/groups", json={"path": 1}),
        await application.stranger().post("/connect/token", data={"grant_type": "password"}),
    ]
    for answer in answers:
        assert answer.json().keys() >= {"type", "title", "status", "detail", "code"}, answer.text
        assert answer.json()["status"] == answer.status_code
    for answer in answers[2:4]:
        assert answer.json()["errors"][0].keys() == {"field", "message"}
