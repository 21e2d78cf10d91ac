"""The page that runs a module with options: what is typed becomes the request of the job, and mistakes stand beside their fields."""

from urllib.parse import urlsplit

import pytest

from terracrew.api.jobs import JobType, NewJob
from terracrew.server.dashboard.modules.run_options import RunOptionsForm
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("P4.pages")


@pytest.mark.usefixtures("jobs")
async def test_everything_that_is_typed_is_in_the_job(application: Application) -> None:
    someone = await logged_in(application)
    module = await application.scalar("SELECT id FROM modules WHERE path = 'hello'")
    here = f"/dashboard/modules/{module}/run-with"
    assert here in await someone.see(f"/dashboard/modules/{module}")
    assert "Run hello" in await someone.see(here)
    made = await someone.submit(
        here,
        type="APPLY",
        priority="7",
        needs_approval="true",
        is_fresh="true",
        is_without_refresh="true",
        inputs='zones=["a", "b"]\r\nname = x=y\r\n',
        environment="AWS_REGION=eu-central-1",
        targets="aws_vpc.main\r\nmodule.net",
        replace='aws_vpc.side["<b>"]',
    )
    assert made.status_code == 303, made.text
    job = urlsplit(made.headers["location"]).path.rpartition("/")[2]
    found = (await application.admin.get(f"/api/v1/jobs/{job}")).json()
    assert (found["type"], found["priority"], found["needs_approval"], found["is_fresh"]) == ("APPLY", 7, True, True)
    assert (found["targets"], found["replace"]) == (["aws_vpc.main", "module.net"], ['aws_vpc.side["<b>"]'])
    assert found["refresh"] is False


def test_values_are_read_as_on_the_command_line() -> None:
    form = RunOptionsForm(
        inputs='zones=["a", "b"]\r\nname = x=y\r\nversion=1.30', environment="AWS_REGION=eu-central-1\n\n"
    )
    assert form.job.inputs == {"zones": ["a", "b"], "name": "x=y", "version": "1.30"}
    assert form.job.environment == {"AWS_REGION": "eu-central-1"}
    assert RunOptionsForm(type="DESTROY_PLAN").job == NewJob(JobType.PLAN, is_destroy_plan=True)


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"inputs": "zones"}, "Write NAME=VALUE, and not zones"),
        ({"environment": "A=1\nA=2"}, "A is there twice"),
        ({"priority": "high"}, "write a whole number"),
        ({"priority": "101"}, "write a number of at most 100"),
        ({"inputs": "x=<script>", "environment": "=1"}, "Write NAME=VALUE, and not =1"),
    ],
)
async def test_a_mistake_is_said_and_what_was_typed_stays(
    application: Application, typed: dict[str, str], words: str
) -> None:
    someone = await logged_in(application)
    module = await application.scalar("SELECT id FROM modules WHERE path = 'hello'")
    before = await application.scalar("SELECT count(*) FROM jobs")
    here = f"/dashboard/modules/{module}/run-with"
    await someone.see(here)
    answer = await someone.submit(here, type="PLAN", **typed)
    assert answer.status_code == 200
    assert words.lower() in answer.text.lower()
    assert "<script>" not in answer.text.partition("run-options")[2]
    for text in typed.values():
        assert text.splitlines()[0].replace("<script>", "&lt;script&gt;") in answer.text
    assert await application.scalar("SELECT count(*) FROM jobs") == before
