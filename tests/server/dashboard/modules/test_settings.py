"""The settings of a module in sections: each form changes its own settings alone, and says beside the field what is wrong."""

import pytest

from terracrew.api.fields import describe
from terracrew.api.groups import GroupSettings
from terracrew.api.modules import ModuleRequest
from terracrew.server.dashboard.groups import handlers as groups
from terracrew.server.dashboard.modules import settings
from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = pytest.mark.feature("U6.tree")
SOURCE = {"kind": "local", "path": "/srv/sources"}


async def made(application: Application) -> tuple[Visitor, str]:
    """Return an owner, and the address of the settings of a module in a group."""
    await application.admin.made("/api/v1/groups", {"path": "net", "max_destroy": 5, "interrupted": "ask"})
    module = await application.admin.made("/api/v1/modules", {"path": "net/vpc", "source": SOURCE})
    someone = await logged_in(application)
    here = f"/dashboard/modules/{module['id']}/settings"
    await someone.see(here)
    return someone, here


async def test_each_section_changes_its_own_settings_alone(application: Application) -> None:
    """Approvals, description, engine, versions and what follows an interruption could be changed on the command line only."""
    someone, here = await made(application)
    sections = {
        "general": {"description": "The network"},
        "engine": {"engine": "terraform", "engine_version": "~> 1.12"},
        "approval": {"needs_approval": "true", "min_approvals": "2", "approval_seconds": "24h", "max_destroy": "3"},
        "cloud": {"oidc_audiences": "sts.amazonaws.com, vault"},
    }
    for section, fields in sections.items():
        answer = await someone.submit(f"{here}/{section}", **fields)
        assert (answer.status_code, answer.headers.get("location")) == (303, f"{here}#section-{section}"), answer.text
    found = (await application.admin.get("/api/v1/modules/net%2Fvpc")).json()
    wanted = {
        "description": "The network",
        "engine": "terraform",
        "engine_version": "~> 1.12",
        "needs_approval": True,
        "min_approvals": 2,
        "approval_seconds": 86_400,
        "max_destroy": 3,
        "max_destroy_percent": None,
        "oidc_audiences": ["sts.amazonaws.com", "vault"],
    }
    assert {name: found[name] for name in wanted} == wanted
    await someone.submit(f"{here}/approval", interrupted="retry", max_destroy_percent="")
    page = await someone.see(here)
    assert "2 people must approve each change (net/vpc)" in page
    assert "If empty: at most 5, from net." in page, "what would apply without its own"
    assert "Retry has no effect here, because net says ask a person." in page
    assert '<option value="terraform" selected>Terraform</option>' in page
    entries = (await application.admin.get("/api/v1/audit", params={"action": "module.change"})).json()["items"]
    assert [each["details"]["changed"] for each in entries][:2] == [
        ["interrupted"],
        ["oidc_audiences"],
    ]


async def test_a_section_that_is_saved_by_script_is_answered_alone_and_says_so(application: Application) -> None:
    someone, here = await made(application)
    data = {"_csrf": someone.csrf, "description": "The network"}
    answer = await someone.post(f"{here}/general", data=data, headers={"HX-Request": "true"})
    assert answer.headers["hx-trigger"] == '{"said": "Saved: General"}'
    assert answer.text.strip().startswith('<section class="panel narrow" id="section-general"')
    assert ">The network</textarea>" in answer.text
    assert answer.text.count("<section") == 1


@pytest.mark.parametrize(
    ("section", "fields", "field", "words"),
    [
        ("approval", {"approval_seconds": "soon"}, "approval-seconds", "&#39;soon&#39; is not a duration"),
        ("approval", {"approval_seconds": "5s"}, "approval-seconds", "Write a duration between 1m and 365d."),
        ("approval", {"min_approvals": "21"}, "min-approvals", "Write a number of at most 20."),
        ("approval", {"approval_seconds": "x", "max_destroy": "few"}, "max-destroy", "Write a whole number."),
        ("engine", {"engine": "terrafrom"}, "engine", "did you mean terraform?"),
        ("engine", {"engine_version": "newest"}, "engine-version", "newest"),
        ("general", {"description": "x" * 2001}, "description", "Write at most 2,000 characters."),
        ("approval", {"interrupted": "never"}, "interrupted", "&#39;never&#39; is not one of ask, retry"),
        ("placement", {"tags": "edge, <b>"}, "tags", "it is not a tag of up to 63 letters"),
        ("limits", {"limits.job_seconds": "366d"}, "limits-job-seconds", "Write a duration between 1s and 365d."),
        ("limits", {"limits.step_seconds": "plan=0s"}, "limits-step-seconds", "Write a number of at least 1."),
        ("limits", {"limits.step_seconds": "plan"}, "limits-step-seconds", "Write plan=10m"),
        ("limits", {"limits.memory_mb": "99999999"}, "limits-memory-mb", "Write a number of at most 16,777,216."),
    ],
)
async def test_what_is_wrong_stands_beside_its_field_and_changes_nothing(
    application: Application, section: str, fields: dict[str, str], field: str, words: str
) -> None:
    someone, here = await made(application)
    before = (await application.admin.get("/api/v1/modules/net%2Fvpc")).json()
    refused = await someone.submit(f"{here}/{section}", **fields)
    assert refused.status_code == 200
    message = refused.text.partition(f'id="{field}-wrong" role="alert">')[2].partition("</span>")[0]
    assert words in message, refused.text
    assert (await application.admin.get("/api/v1/modules/net%2Fvpc")).json() == before


async def test_the_backend_is_changed_with_a_warning_and_not_under_a_job(application: Application) -> None:
    someone, here = await made(application)
    place = here.removesuffix("/settings")
    await application.admin.made("/api/v1/modules/net%2Fvpc/jobs", {"type": "PLAN"})
    refused = await someone.submit(f"{place}/backend", backend="own")
    assert "unfinished job" in refused.text.partition('id="section-backend"')[2].partition("</section>")[0]
    assert (await application.admin.post("/api/v1/jobs/cancel", json={"module": "net/vpc"})).is_success
    answer = await someone.submit(f"{place}/backend", backend="own")
    assert answer.status_code == 303, answer.text
    assert (await application.admin.get("/api/v1/modules/net%2Fvpc")).json()["backend"] == "own"
    page = await someone.see(here)
    assert "Keep the state in Terracrew…" in page
    assert "terracrew state import net/vpc state.json" in page, "the way back says how the state comes along"


async def test_a_module_is_renamed_and_a_path_that_is_not_possible_is_refused_beside_its_field(
    application: Application,
) -> None:
    someone, here = await made(application)
    place = here.removesuffix("/settings")
    refused = await someone.submit(f"{place}/move", to="nowhere/vpc")
    assert "There is no group" in refused.text.partition('id="to-wrong" role="alert">')[2].partition("</span>")[0]
    assert 'value="nowhere/vpc"' in refused.text, "what was typed stays"
    answer = await someone.submit(f"{place}/move", to="net/vpc-eu")
    assert (answer.status_code, answer.headers["location"]) == (303, here)
    assert "Settings of vpc-eu" in await someone.see(here)
    assert (await application.admin.get("/api/v1/modules/net%2Fvpc")).status_code == 404


async def test_a_module_is_deleted_and_what_it_leaves_is_said_first(application: Application) -> None:
    someone, here = await made(application)
    place = here.removesuffix("/settings")
    job = await application.admin.made("/api/v1/modules/net%2Fvpc/jobs", {"type": "PLAN"})
    page = await someone.see(here)
    assert "1 unfinished job" in page
    assert 'id="delete-module"' not in page
    refused = await someone.submit(f"{place}/delete", force="true")
    assert "has 1 unfinished jobs" in refused.text
    assert (await application.admin.post(f"/api/v1/jobs/{job['id']}/cancel", json={})).is_success
    assert "Also delete its 1 job and 0 states" in await someone.see(here)
    refused = await someone.submit(f"{place}/delete")
    assert "which would be deleted with it" in refused.text, "without the box, nothing is deleted"
    answer = await someone.submit(f"{place}/delete", force="true")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/groups/net")
    assert (await application.admin.get("/api/v1/modules/net%2Fvpc")).status_code == 404


async def test_who_may_not_change_a_module_reaches_none_of_its_settings(application: Application) -> None:
    someone, here = await made(application)
    await someone.see(here)
    await application.person("otto", "operator")
    operator = await logged_in(application, "otto")
    await operator.see(here, 403)
    await operator.see("/dashboard/modules")
    place = here.removesuffix("/settings")
    for path, fields in (
        (f"{here}/general", {"description": "mine"}),
        (f"{place}/backend", {"backend": "own"}),
        (f"{place}/move", {"to": "mine"}),
        (f"{place}/delete", {}),
    ):
        assert (await operator.submit(path, **fields)).status_code == 403, path
    assert (await someone.submit(f"{here}/nothing")).status_code == 404


async def test_resources_that_a_deletion_would_leave_are_counted(application: Application) -> None:
    someone, here = await made(application)
    assert "It manages no resources." in await someone.see(here)
    resource = {"mode": "managed", "type": "terraform_data", "name": "n", "instances": [{"attributes": {"id": "n"}}]}
    state = {"version": 4, "serial": 1, "lineage": "estate", "resources": [resource]}
    answer = await application.admin.post("/api/v1/modules/net%2Fvpc/states", json=state)
    assert answer.is_success, answer.text
    page = await someone.see(here)
    assert "It manages 1 resource, which would continue to exist." in page
    assert "Also delete its 0 jobs and 1 state" in page
    assert "terracrew state show 1 --module net/vpc" in page, "before the backend is changed"


async def test_a_character_that_no_database_stores_is_refused_in_forms(application: Application) -> None:
    """SQLite stored NUL in texts, and PostgreSQL answered with its own words about bytes."""
    someone, here = await made(application)
    refused = await someone.submit(f"{here}/general", description="a\0b")
    assert (refused.status_code, "NUL character" in refused.text) == (400, True), refused.text


async def test_the_team_of_a_module_is_created_found_shown_and_changed(application: Application) -> None:
    body = {"path": "net", "source": SOURCE, "team": "Harbor crew"}
    module = await application.admin.made("/api/v1/modules", body)
    assert module["team"] == "Harbor crew"
    someone = await logged_in(application)
    here = f"/dashboard/modules/{module['id']}"
    assert "Harbor crew" in await someone.see("/dashboard/modules?q=harbor")
    assert "Harbor crew" in await someone.see(here)
    assert 'value="Harbor crew"' in await someone.see(f"{here}/settings")
    answer = await someone.submit(f"{here}/settings/general", description="", team="Dock crew")
    assert answer.status_code == 303, answer.text
    assert "Dock crew" in await someone.see(here)
    assert module["id"] not in await someone.see("/dashboard/modules?q=harbor")
    assert (await application.admin.get("/api/v1/modules/net")).json()["team"] == "Dock crew"


def test_every_field_that_a_command_changes_is_on_a_page() -> None:
    for kind, titles in ((ModuleRequest, settings.TITLES), (GroupSettings, groups.TITLES)):
        missing = {name for name, about in describe(kind).items() if about.words.section not in titles}
        assert missing <= {"source", "backend", "inputs", "environment"}, "these have pages or sections of their own"
