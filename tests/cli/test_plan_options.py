"""The options of a plan on the command line: how a job is asked for them, and how they are shown."""

import msgspec
import pytest

from terracrew.api.job_views import JobView
from terracrew.cli.commands.job import follow
from tests.cli.conftest import Terracrew
from tests.cli.job_views import view
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("J7.options")

WEB = 'aws_instance.web["a b"]'
OPTIONS = ("--target", WEB, "--target", "module.a", "--replace", WEB, "--no-refresh")
ASKED = {"targets": [WEB, "module.a"], "replace": [WEB], "refresh": False}


def test_a_job_is_asked_for_with_its_options(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("POST /api/v1/modules/a/jobs", view("QUEUED"), 201)
    terracrew("job", "run", "a", "--apply", *OPTIONS)
    assert server.asked[-1].json() == {"type": "APPLY", **ASKED}
    terracrew("job", "run", "a", "--apply", "--refresh-only")
    assert server.asked[-1].json() == {"type": "APPLY", "is_refresh_only": True}
    terracrew("job", "run", "a", "--refresh")
    assert server.asked[-1].json() == {"type": "PLAN"}, "an older server, too, understands what needs no option"


def test_a_job_shows_its_options(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED", **ASKED))
    terracrew("job", "show", "7")
    for words in (f"{WEB}, module.a", "replaces", "left out: the plan relies on the state alone"):
        assert words in terracrew.out
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED", targets=[f"module.a{n}" for n in range(22)]))
    terracrew("job", "show", "7")
    assert "module.a19 and 2 more" in terracrew.out
    server.on("GET /api/v1/jobs/7", view("SUCCEEDED", type="APPLY", is_refresh_only=True))
    terracrew("job", "show", "7")
    assert "REFRESH-ONLY APPLY" in terracrew.out


def test_the_command_that_follows_a_plan_of_a_part_does_not_apply_everything() -> None:
    job = msgspec.convert(view("SUCCEEDED", type="PLAN", plan={"add": 1}, **ASKED), JobView)
    options = f"--target '{WEB}' --target module.a --replace '{WEB}' --no-refresh"
    assert f"--apply {options} --follow" in follow.next_command(job)
