"""A job says what made the server create it, and who counts as its creator."""

from terracrew.api.jobs import JobOrigin, NewJob
from terracrew.protocol.spec import JobType
from terracrew.server.jobs.create import JobRequest
from terracrew.server.principals.model import SYSTEM
from tests.server.application import Application
from tests.server.tree.inputs.places import SOURCE

ORIGIN = JobOrigin(
    kind="pull_request",
    name="acme/network #12",
    id="prq_1",
    url="https://git.example.com/acme/network/pulls/12",
    title="Add <b>a subnet</b>",
    author="ann",
    commit="a" * 40,
    base_commit="b" * 40,
)


async def test_a_job_keeps_where_it_comes_from(application: Application) -> None:
    admin = application.admin
    ann = await application.person("ann")
    module = await admin.made("/api/v1/modules", {"path": "network", "source": SOURCE})
    asked = NewJob(JobType.PLAN)
    request = JobRequest(SYSTEM, module["id"], asked, origin=ORIGIN, created_for=ann.principal.id)
    made = (await application.server.create_job(request)).job
    shown = (await admin.get(f"/api/v1/jobs/{made.id}")).json()
    assert shown["created_by"] == ann.principal.id
    assert (shown["origin"]["name"], shown["origin"]["base_commit"]) == ("acme/network #12", "b" * 40)
    [entry] = await admin.listed("/api/v1/audit", action="job.run")
    assert (entry["actor_name"], entry["details"]["origin"]) == ("Terracrew", "pull_request acme/network #12")
    own = await admin.made("/api/v1/modules/network/jobs", {"type": "PLAN"})
    assert own["origin"] is None
