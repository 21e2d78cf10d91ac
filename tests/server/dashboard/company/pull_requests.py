"""Pull requests of the company: one that touches three modules, one of a fork that nobody has allowed, and one that was merged."""

from typing import Any

from msgspec.structs import replace

from terracrew.api.pull_requests import PlanState
from terracrew.forges.model import PullRequest
from terracrew.server.forges import fact_store
from terracrew.server.pull_requests import store
from terracrew.server.pull_requests.model import TouchedModule
from tests.server.dashboard.company.rows import Company

HEAD, BASE = "3c1f" * 10, "9f2c" * 10


async def pull_requests(made: Company, modules: dict[str, str]) -> None:
    """`modules` has the ids of three modules by their conditions: planned, failed, waiting for approval."""
    row = await made.tx.one("SELECT id FROM forge_repositories WHERE name = 'acme/network'")
    assert row is not None
    wide = await _tracked(made, row["id"], 431, "Give the ledger a subnet of its own in every region of the continent")
    await store.save(
        made.tx, replace(await _row(made, wide), replies=["bob: terracrew apply: applied: `platform/dns`"])
    )
    states: list[tuple[str, PlanState, str, str]] = [
        ("planned", "changes", "14 to add, 2 to change, 1 to destroy", ""),
        ("failed", "failed", "", "the plan failed: Invalid function argument on main.tf line 7"),
        ("waiting", "needs_approval", "1 to add, 0 to change, 0 to destroy", ""),
    ]
    rows = [
        TouchedModule(
            pull_request_id=wide,
            module_id=modules[name],
            digest="d",
            head_commit=HEAD,
            base_commit=BASE,
            state=state,
            counts=counts,
            reason=reason,
            size=17 if counts else 0,
            resources=[f"create   aws_subnet.private_{number}" for number in range(9)] if counts else [],
            changed_at=made.tx.moment,
        )
        for name, state, counts, reason in states
    ]
    await store.put_modules(made.tx, rows)
    fork = await _tracked(made, row["id"], 432, "Correct the name of a zone", is_fork=True)
    words = f"it comes from a fork: when somebody has looked at it, a member comments `terracrew allow {HEAD[:12]}`"
    await store.save(made.tx, replace(await _row(made, fork), problem=words, is_waiting=True, base_commit=""))
    await _tracked(made, row["id"], 399, "Name the regions", state="merged", merge_commit=BASE, merged_by="elena")


async def _tracked(made: Company, repository_id: str, number: int, title: str, **facts: Any) -> str:
    usual: dict[str, Any] = {
        "url": f"https://github.com/acme/network/pull/{number}",
        "state": "open",
        "author": "priya",
        "author_id": "7",
        "head_commit": HEAD,
        "head_branch": f"change-{number}",
        "base_branch": "main",
        "head_ref": f"refs/pull/{number}/head",
    }
    told = PullRequest(number=number, title=title, **usual | facts)
    [known] = await fact_store.save_answers(made.tx, repository_id, [told], number)
    await store.insert(made.tx, known.id, made.organization_id)
    row = await _row(made, known.id)
    await store.save(made.tx, replace(row, head_commit=HEAD, base_commit=BASE, is_active=False))
    return known.id


async def _row(made: Company, pull_request_id: str) -> Any:
    row = await store.get(made.tx, pull_request_id)
    assert row is not None
    return row
