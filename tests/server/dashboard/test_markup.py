"""No page has inline script or style, no text of others becomes markup, and a fragment is the same as in its page."""

import re

from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Tx
from tests.builders.job_rows import change_groups, change_jobs
from tests.server.application import Application
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.visitor import logged_in, visitor

HOSTILE = """"><script>alert(1)</script><img src=x onerror=alert(1)>'{{7*7}}"""
INLINE = re.compile(r"<script(?![^>]* src=)|<style|\s(?:style|on[a-z]+)\s*=", re.IGNORECASE)


async def test_no_page_has_inline_script_or_style_and_every_answer_says_so(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    paths = ["/dashboard", "/dashboard/runners", "/dashboard/runners/add", "/dashboard/jobs", "/dashboard/modules"]
    paths += ["/dashboard/modules/create"]
    group = "/dashboard/groups/platform"
    paths += ["/dashboard/groups", group, f"{group}/create", f"{group}/settings", f"{group}/access"]
    paths += [f"{group}/access/grant", "/dashboard/audit", "/dashboard/account", "/dashboard/account/tokens/create"]
    paths += ["/dashboard/users", "/dashboard/users/invite", f"/dashboard/users/{application.admin.principal.id}"]
    paths += ["/dashboard/service-accounts", "/dashboard/service-accounts/create", "/dashboard/organizations"]
    paths += ["/dashboard/organizations/create", f"/dashboard/organizations/{application.server.organization_id}"]
    runner_id = await application.scalar("SELECT id FROM runners WHERE path = 'payments/prod'")
    runner = f"/dashboard/runners/{runner_id}"
    paths += [runner, f"{runner}/edit", "/dashboard/runners?group=payments", "/dashboard/runners/deploy"]
    cloud = f"/dashboard/runners/{await application.scalar('SELECT runner_id FROM cloud_deployments LIMIT 1')}"
    paths += [cloud, f"{cloud}/deployment", f"{cloud}/destroy"]
    identity = f"/dashboard/cloud-identities/{await application.scalar('SELECT id FROM cloud_identities LIMIT 1')}"
    paths += ["/dashboard/cloud-identities", "/dashboard/cloud-identities/create", identity, f"{identity}/edit"]
    paths += [f"/dashboard/modules/{await application.scalar('SELECT id FROM modules LIMIT 1')}/settings"]
    paths += [f"/dashboard/modules/{await application.scalar('SELECT id FROM modules LIMIT 1')}/run-with"]
    paths += [f"/dashboard/inputs/{await application.scalar('SELECT id FROM modules LIMIT 1')}"]
    paths += [f"/dashboard/steps/{await application.scalar('SELECT id FROM modules LIMIT 1')}"]
    module = await application.scalar("SELECT module_id FROM drift_items LIMIT 1")
    paths += ["/dashboard/drift", f"/dashboard/drift/{module}", f"/dashboard/drift/{module}/mute"]
    schedule = await application.scalar("SELECT id FROM schedules LIMIT 1")
    paths += ["/dashboard/schedules", "/dashboard/schedules/create", f"/dashboard/schedules/{schedule}"]
    channel = f"/dashboard/notifications/{await application.scalar('SELECT id FROM notification_channels LIMIT 1')}"
    paths += ["/dashboard/notifications", "/dashboard/notifications/create", channel, f"{channel}/deliveries"]
    rule = await application.scalar("SELECT id FROM discovery_rules LIMIT 1")
    paths += ["/dashboard/discovery", "/dashboard/discovery/create", f"/dashboard/discovery/{rule}"]
    published = await application.scalar("SELECT id FROM published_modules WHERE name = 'vpc'")
    paths += ["/dashboard/registry", "/dashboard/registry/create", f"/dashboard/registry/{published}"]
    paths += [f"/dashboard/registry/{published}/versions/1.2.0/withdraw"]
    policy = await application.scalar("SELECT id FROM policies LIMIT 1")
    paths += ["/dashboard/policies", "/dashboard/policies/create", f"/dashboard/policies/{policy}"]
    forge = f"/dashboard/forges/{await application.scalar('SELECT id FROM forge_connections LIMIT 1')}"
    paths += ["/dashboard/forges", "/dashboard/forges/create", "/dashboard/forges/create/github", forge]
    paths += ["/dashboard/server", "/dashboard/server/storage", "/dashboard/server/issuer", "/dashboard/hold"]
    paths += ["/dashboard/releases", "/dashboard/releases/tokens", "/dashboard/releases/tokens/create"]
    paths += [f"{runner}/once-tokens", "/dashboard/account/access?verb=job.run&on=payments"]
    for path in [*paths, *(f"/dashboard/jobs/{job}" for job in jobs.values()), "/dashboard/jobs/999999"]:
        answer = await someone.get(path)
        assert answer.status_code in (200, 404), answer.text
        assert not INLINE.findall(answer.text), path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["cache-control"] == "no-store"
    assert not INLINE.findall(await visitor(application).see("/login"))


async def test_hostile_names_are_text_and_nothing_else(application: Application) -> None:
    async def work(tx: Tx) -> str:
        made = Company(tx, application.server.organization_id, HOSTILE)
        runner = await made.runner("evil", HOSTILE, region=HOSTILE, type="cloud-hosted")
        instance = await made.instance(runner, HOSTILE, version=HOSTILE)
        module = await made.module(f"group/{HOSTILE}", HOSTILE)
        job = await made.job(
            module, JobType.PLAN, "FAILED", message=HOSTILE, runner_id=runner, instance_id=instance, attempt=2
        )
        for number in (1, 2):
            await made.attempt(job, runner, instance, number=number, ended_at=made.now, outcome="lost", reason=HOSTILE)
        await made.insert("notes", job_id=job, attempt=1, event=1, text=HOSTILE, created_at=made.now)
        await change_jobs(tx, source_description=HOSTILE, engine_version=HOSTILE)
        await change_groups(tx, description=HOSTILE)
        return job

    job = await application.server.db.write(work)
    someone = await logged_in(application)
    paths = [
        "/dashboard",
        "/dashboard/runners",
        "/dashboard/jobs",
        f"/dashboard/jobs/{job}",
        "/dashboard/modules",
        "/dashboard/groups",
    ]
    runner_id = await application.scalar("SELECT id FROM runners WHERE path = 'evil'")
    paths += ["/dashboard/groups/group/settings", f"/dashboard/runners/{runner_id}"]
    for path in paths:
        page = await someone.see(path)
        assert "&lt;script&gt;alert(1)" in page, path
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "49" not in re.findall(r"'(\{\{.*?\}\}|49)", page)
    for path in ("/dashboard/runners", "/dashboard/modules"):
        page = (await someone.get(path, params={"q": f"nothing {HOSTILE}"})).text
        assert "<script>alert" not in page
    page = (await someone.get("/login", params={"next": HOSTILE})).text
    assert "<script>alert" not in page


async def test_a_fragment_is_the_same_as_in_the_page(application: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(application)
    for path, part in (
        ("/dashboard", "overview"),
        ("/dashboard/runners", "runners"),
        (f"/dashboard/runners/{await application.scalar('SELECT id FROM runners LIMIT 1')}", "runner"),
        ("/dashboard/cloud-identities", "cloud-identities"),
        (
            f"/dashboard/cloud-identities/{await application.scalar('SELECT id FROM cloud_identities LIMIT 1')}",
            "identity",
        ),
        ("/dashboard/jobs", "jobs"),
        ("/dashboard/drift", "drift"),
        (f"/dashboard/drift/{await application.scalar('SELECT module_id FROM drift_items LIMIT 1')}", "module-drift"),
        ("/dashboard/schedules", "schedules"),
        ("/dashboard/notifications", "notifications"),
        ("/dashboard/forges", "forges"),
        ("/dashboard/discovery", "discovery"),
        ("/dashboard/registry", "registry"),
        ("/dashboard/policies", "policies"),
        ("/dashboard/modules", "modules"),
        ("/dashboard/groups/platform", "group"),
        ("/dashboard/groups/platform/access", "access"),
        ("/dashboard/users", "users"),
        ("/dashboard/service-accounts", "service-accounts"),
        ("/dashboard/audit", "audit"),
        (f"/dashboard/modules/{await application.scalar('SELECT id FROM modules LIMIT 1')}", "module"),
    ):
        whole = _still(await someone.see(path))
        answer = await someone.get(path, headers={"HX-Request": "true"})
        assert answer.headers["vary"] == "HX-Request"
        fragment = _still(answer.text).partition('<span id="nav-jobs"')[0].strip()
        assert fragment.startswith(f'<div id="{part}"')
        assert fragment in whole
    job = await someone.get(f"/dashboard/jobs/{jobs['done']}", headers={"HX-Request": "true"})
    assert job.text.count('hx-swap-oob="morph"') == 9
    assert "data-log" not in job.text, "a log appends and is never rendered again"


def _still(text: str) -> str:
    """Without what goes on by itself between two looks: times."""
    return re.sub(r"<time[^>]*>[^<]*", "<time>", text)
