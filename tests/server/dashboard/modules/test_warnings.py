"""The page of a module says when it waits for its turn, when a trigger failed, and what was changed outside of its engine."""

import hashlib
from typing import Any

import pytest

from terracrew.errors import Conflict
from terracrew.plan_diff import document
from terracrew.plan_diff.document import PlanDescription
from terracrew.protocol.events import Output, PlanDescribed, PlanSummary
from terracrew.server.jobs import create
from terracrew.server.jobs.triggers import Triggers
from terracrew.server.tree.inputs import trigger_store
from tests.builders.deliveries import DONE, RUNNING, fact
from tests.builders.job_rows import change_jobs
from tests.plan_diff.plans import planned, unmasked
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SOURCE
from tests.server.tree.inputs.references import apply, refer


@pytest.mark.feature("J6.triggers", "U6.tree")
async def test_the_page_says_what_a_module_waits_for_before_it_is_applied_by_itself(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    made = {
        name: (await admin.made("/api/v1/modules", {"path": name, "source": SOURCE, "triggers": "auto"}))["id"]
        for name in ("network", "app")
    }
    await refer(admin, "app", "network", "id", "vpc")
    cause = await apply(runner, made["network"], id=Output(1))
    someone = await logged_in(runner.app)
    page = await someone.see(f"/dashboard/modules/{made['app']}")
    assert "it is applied when its turn comes" in page
    assert "It waits for" not in page, "its turn is now"
    await admin.made(f"/api/v1/modules/{made['network']}/jobs", {"type": "APPLY"})
    page = await someone.see(f"/dashboard/modules/{made['app']}")
    assert "output id of module network, which is being changed" in page
    assert f'href="/dashboard/modules/{made["network"]}"' in page
    await runner.app.person("alina", "viewer", "")
    db = runner.server.db
    await db.write(lambda tx: trigger_store.forget(tx, made["app"]))
    await db.write(lambda tx: trigger_store.note_problem(tx, made["app"], cause, "the folder <b> is not allowed"))
    page = await someone.see(f"/dashboard/modules/{made['app']}")
    assert "A changed output could not start an apply." in page
    assert "The folder &lt;b&gt; is not allowed." in page
    alina = await logged_in(runner.app, "alina")
    page = await alina.see(f"/dashboard/modules/{made['app']}")
    assert "A changed output could not start an apply." in page
    assert "is not allowed" not in page, "the message may name what a viewer may not see"
    await admin.made(f"/api/v1/modules/{made['app']}/jobs", {"type": "APPLY"})
    assert "could not start" not in await someone.see(f"/dashboard/modules/{made['app']}")


@on_one
@pytest.mark.feature("J6.triggers")
async def test_a_trigger_that_cannot_queue_its_job_is_kept_for_the_page(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, server = runner.app.admin, runner.server
    made = {
        name: (await admin.made("/api/v1/modules", {"path": name, "source": SOURCE, "triggers": "auto"}))["id"]
        for name in ("network", "app")
    }
    await refer(admin, "app", "network", "id", "vpc")
    await apply(runner, made["network"], id=Output(1))

    async def refuse(*_: Any, **__: Any) -> list[Conflict]:
        return [Conflict("the numbers of jobs are used up")]

    with monkeypatch.context() as patched:
        patched.setattr(create, "create_all", refuse)
        await Triggers(server.db, server.keys, server.settings.local_roots).step()
    someone = await logged_in(runner.app)
    page = await someone.see(f"/dashboard/modules/{made['app']}")
    assert "The numbers of jobs are used up." in page
    assert 'id="turn"' not in page


@on_one
@pytest.mark.feature("J6.triggers", "U6.tree")
async def test_the_forms_of_a_module_set_what_happens_when_an_output_changes(application: Application) -> None:
    admin = application.admin
    someone = await logged_in(application)
    await someone.see("/dashboard/modules/create")
    form = {"name": "app", "source": "local", "folder": SOURCE["path"], "is_triggered": "true"}
    answer = await someone.submit("/dashboard/modules/create", **form)
    assert answer.status_code == 303, answer.text
    assert (await admin.get("/api/v1/modules/app")).json()["triggers"] == "auto"
    module = answer.headers["Location"]
    assert "apply it by itself, after everything else that it needs" in await someone.see(module)
    assert '<option value="auto" selected' in await someone.see(f"{module}/settings")
    assert (await someone.submit(f"{module}/settings/triggers", triggers="manual")).status_code == 303
    assert (await admin.get("/api/v1/modules/app")).json()["triggers"] == "manual"
    assert "This is not valid" in (await someone.submit(f"{module}/settings/triggers", triggers="sometimes")).text


@on_one
@pytest.mark.feature("U6.tree")
async def test_the_menu_of_a_module_has_what_the_reader_may_do(application: Application) -> None:
    made = await application.admin.made("/api/v1/modules", {"path": "m", "source": SOURCE})
    await application.person("vera", "viewer")
    await application.person("otto", "operator")
    here = f"/dashboard/modules/{made['id']}"
    assert 'id="module-menu"' not in await (await logged_in(application, "vera")).see(here)
    page = await (await logged_in(application, "otto")).see(here)
    assert "Plan a destroy" in page
    assert f"{here}/source" not in page
    page = await (await logged_in(application)).see(here)
    assert f'href="{here}/source"' in page
    assert f'href="{here}/destroy"' in page


@pytest.mark.feature("J11.diff", "U6.tree")
async def test_the_page_of_a_module_names_what_the_last_plan_found_to_be_changed_outside(
    runner: SimulatedRunner,
) -> None:
    outside = [planned({"size": 1}, {"size": 2}, address=f'a.b["<{number}>"]') for number in range(7)]
    content = document.build(PlanDescription((), drift=outside), unmasked)
    attempt = await runner.run()
    described = PlanDescribed(hashlib.sha256(content).hexdigest(), content)
    await attempt.deliver(RUNNING, fact(PlanSummary(unchanged=7)), fact(described), DONE)
    someone = await logged_in(runner.app)
    here = f"/dashboard/modules/{attempt.module_id}"
    page = await someone.see(here)
    assert "found 7 resources that were changed outside" in page
    assert "<code>a.b[&#34;&lt;0&gt;&#34;]</code>" in page
    assert "and 2 more" in page
    assert f"/dashboard/jobs/{attempt.ref.job_id}?action=drift#plan" in page
    for of_a_part in ({"targets": ["a.c"]}, {"refresh": False}):  # such a plan does not look at everything
        job = await runner.rows.job(attempt.module_id, kind="APPLY")
        await change_jobs(runner.server.db, job, **of_a_part)
        again = await runner.again(job)
        await again.deliver(RUNNING, fact(PlanSummary(unchanged=7)), DONE)
        assert 'id="drift"' in await someone.see(here)
    again = await runner.run(attempt.module_id)
    await again.deliver(RUNNING, fact(PlanSummary(unchanged=7)), DONE)
    assert 'id="drift"' not in await someone.see(here)
