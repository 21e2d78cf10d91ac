"""`terracrew input`: values are typed, and a secret is never an argument."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands", "J6.inputs")
VIEW: dict[str, Any] = {
    "target": "variable",
    "name": "zones",
    "kind": "literal",
    "value": ["a", "b"],
    "is_hidden": False,
    "place_kind": "group",
    "path": "platform",
    "is_inherited": True,
    "version": 2,
    "set_by": "usr_1",
    "set_by_name": "olga",
    "set_at": "2024-01-02T03:04:05Z",
    "overrides": None,
    "problem": "",
}
SECRET = VIEW | {"name": "DB", "kind": "secret", "target": "environment", "value": None, "is_hidden": True, "path": ""}


def test_the_list_says_where_each_input_comes_from(terracrew: Terracrew, server: ScriptedServer) -> None:
    secret = SECRET | {"place_kind": "organization"}
    server.on("GET /api/v1/inputs?place=platform%2Fvpc", {"items": [VIEW, secret], "next": None})
    lines = terracrew("input", "list", "platform/vpc").splitlines()
    assert lines[0].split() == ["NAME", "VALUE", "FROM", "SET"]
    assert lines[1].split("  ")[0:4:1][0] == "zones"
    assert '["a","b"]' in lines[1]
    assert "platform" in lines[1]
    assert "by olga" in lines[1]
    assert lines[2].startswith("$DB")
    assert "•••" in lines[2]
    assert "the organization" in lines[2]
    assert VIEW.items() <= json.loads(terracrew("input", "list", "platform/vpc", "--json"))[0].items()


@pytest.mark.parametrize(
    ("arguments", "stdin", "sent"),
    [
        (["zones", '["a","b"]'], "", {"value": ["a", "b"]}),
        (["zones", "5"], "", {"value": 5}),
        (["zones", "1.30"], "", {"value": "1.30"}),
        (["zones", "5", "--text"], "", {"value": "5"}),
        (["zones", "a text"], "", {"value": "a text"}),
        (["zones"], "from a pipe\n", {"value": "from a pipe"}),
        (["zones", "5", "--env"], "", {"target": "environment", "value": "5"}),
        (["zones", "--secret"], "two\nlines\n", {"secret": "two\nlines"}),
        (["zones", "--file", "--overwrite"], "5\n", {"target": "file", "value": "5", "overwrite": True}),
        (["zones", "--secret", "--env"], "a secret", {"target": "environment", "secret": "a secret"}),
    ],
)
def test_values_have_types(
    terracrew: Terracrew, server: ScriptedServer, arguments: list[str], stdin: str, sent: dict[str, Any]
) -> None:
    server.on("POST /api/v1/inputs", VIEW)
    said = terracrew("input", "set", "platform", *arguments, stdin=stdin)
    assert terracrew.code == 0, terracrew.err
    assert json.loads(server.asked[-1].body) == {"place": "platform", "name": "zones", **sent}
    assert "version 2" in said


def test_a_secret_is_no_argument(terracrew: Terracrew, server: ScriptedServer) -> None:
    terracrew("input", "set", "platform", "db", "hunter2-hunter2", "--secret")
    assert terracrew.code != 0
    assert "a secret is not given as an argument" in terracrew.err
    assert "hunter2" not in terracrew.out + terracrew.err
    assert not server.asked


def test_a_file_is_sent_as_it_is(terracrew: Terracrew, server: ScriptedServer, tmp_path: Path) -> None:
    server.on("POST /api/v1/inputs", VIEW)
    (tmp_path / "ca.pem").write_text("two\nlines\n")
    terracrew("input", "set", "/", "certs/ca.pem", "--file", "--from", str(tmp_path / "ca.pem"))
    assert server.asked[-1].json() == {"place": "/", "name": "certs/ca.pem", "target": "file", "value": "two\nlines\n"}
    terracrew("input", "set", "/", "a", "--file", "--env", "x")
    assert "exclude each other" in terracrew.err


def test_an_empty_pipe_is_no_value(terracrew: Terracrew, server: ScriptedServer) -> None:
    terracrew("input", "set", "platform", "db", "--secret")
    assert terracrew.code != 0
    assert "standard input is empty" in terracrew.err
    assert not server.asked


def test_an_input_is_removed(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("DELETE /api/v1/inputs?place=platform&name=DB&target=environment", None)
    assert terracrew("input", "remove", "platform", "DB", "--env") == "removed DB from platform\n"


def test_what_a_job_was_given_is_shown_without_values(terracrew: Terracrew, server: ScriptedServer) -> None:
    used = {name: VIEW[name] for name in ("target", "name", "kind", "place_kind", "path", "version", "set_by_name")}
    used |= {"set_at": VIEW["set_at"], "is_current": False}
    own = {"target": "environment", "name": "A", "kind": "literal", "place_kind": "job", "path": "", "version": 0}
    own |= {"set_by_name": "", "set_at": None, "is_current": True}
    server.on("GET /api/v1/jobs/7/inputs", {"attempt": 1, "items": [used, own]})
    lines = terracrew("job", "inputs", "7").splitlines()
    assert "changed since" in lines[1]
    assert "the job itself" in lines[2]


def test_an_output_of_another_module_is_a_value(terracrew: Terracrew, server: ScriptedServer) -> None:
    view = VIEW | {"name": "vpc_id", "kind": "output", "value": None, "source_module": "net", "source_output": "id"}
    server.on("POST /api/v1/inputs", view)
    said = terracrew("input", "set", "app", "vpc_id", "--output", "net:id")
    sent = {"place": "app", "name": "vpc_id", "output": {"module": "net", "output": "id"}}
    assert server.asked[-1].json() == sent
    assert said == "set vpc_id of platform to the output id of net\n"
    server.on("GET /api/v1/inputs?place=app", {"items": [view], "next": None})
    assert "net:id" in terracrew("input", "list", "app")
    for bad in (["--output", "net"], ["x", "--output", "net:id"], ["--secret", "--output", "net:id"]):
        terracrew("input", "set", "app", "vpc_id", *bad)
        assert terracrew.code != 0


def test_something_about_the_job_is_a_value(terracrew: Terracrew, server: ScriptedServer) -> None:
    view = VIEW | {"name": "where", "kind": "definition", "value": None, "definition": "module_path"}
    server.on("POST /api/v1/inputs", view)
    said = terracrew("input", "set", "platform", "where", "--about", "module_path")
    sent = {"place": "platform", "name": "where", "definition": "module_path"}
    assert server.asked[-1].json() == sent
    assert said == "set where of platform to the module path of the job\n"
    server.on("GET /api/v1/inputs?place=platform", {"items": [view], "next": None})
    assert "(module path)" in terracrew("input", "list", "platform")
    terracrew("input", "set", "platform", "where", "--about", "module_path", "--output", "a:b")
    assert terracrew.code != 0


@pytest.mark.feature("X1.runners")
def test_a_static_key_of_a_cloud_is_set_with_a_warning(terracrew: Terracrew, server: ScriptedServer) -> None:
    """The server took and stored such a key without a word."""
    made = SECRET | {"name": "AWS_SECRET_ACCESS_KEY", "warning": "AWS_SECRET_ACCESS_KEY is a static key of AWS"}
    server.on("POST /api/v1/inputs", made)
    terracrew("input", "set", "a", "AWS_SECRET_ACCESS_KEY", "--secret", "--env", stdin="s3cret\n")
    assert "warning: AWS_SECRET_ACCESS_KEY is a static key of AWS" in terracrew.err
    assert terracrew.code == 0
    server.on("POST /api/v1/modules/a%2Fm/jobs", {"id": "job_1", "number": 7, "status": "QUEUED", "type": "PLAN"}, 201)
    terracrew("job", "run", "a/m", "--env", "ARM_CLIENT_SECRET=s3cret", "--env", "ARM_REGION=x")
    assert terracrew.err.count("warning: ") == 1
    assert "ARM_CLIENT_SECRET is a static key of Azure" in terracrew.err
    assert "s3cret" not in terracrew.err


def test_a_name_and_a_value_may_be_one_argument(terracrew: Terracrew, server: ScriptedServer) -> None:
    """`input set M tables=600` asked for the value of an input that is called "tables=600"."""
    server.on("POST /api/v1/inputs", VIEW)
    terracrew("input", "set", "platform", "tables=600")
    assert server.asked[-1].json() == {"place": "platform", "name": "tables", "value": 600}
    terracrew("input", "set", "platform", "query=a=b", "--env")
    assert (server.asked[-1].json()["name"], server.asked[-1].json()["value"]) == ("query", "a=b")
    asked = len(server.asked)
    terracrew("input", "set", "platform", "password=hush", "--secret")
    assert (terracrew.code, len(server.asked)) == (2, asked), "a secret is never an argument"
