"""Jobs that wait for a person, and the approval."""

from typing import Any

from terracrew.client.address import segment
from tests.e2e.system import System, eventually


def waiting(system: System, job: str, plan: int = 1) -> dict[str, Any]:
    def probe() -> dict[str, Any] | None:
        found = system.job(job)
        assert found["status"] not in ("FAILED", "SUCCEEDED", "CANCELED"), system.log(job)
        return found if (found["status"], found.get("plan_attempt")) == ("AWAITING_APPROVAL", plan) else None

    return eventually(probe, what="a plan that waits")


def approve(system: System, job: str, plan: int = 1) -> None:
    system.api.post(f"/jobs/{segment(job)}/approve", {"plan": plan})
