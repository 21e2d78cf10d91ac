"""Rows of policies, of their versions, and of what they have said about plans."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.api.policies import PolicySettings
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments, excluded_assignments, values
from terracrew.server.policies.model import Policy, PolicyResult, PolicyVersion

POLICIES = Table("policies", Policy, without=("place",))
VERSIONS = Table("policy_versions", PolicyVersion)
RESULTS = Table("policy_results", PolicyResult)
SELECT: LiteralString = f"""SELECT {POLICIES.columns}, coalesce(groups.path, modules.path) AS place FROM policies
    LEFT JOIN groups ON groups.id = policies.group_id LEFT JOIN modules ON modules.id = policies.module_id"""
_CHANGED = (*POLICIES.fields_of(PolicySettings), "state", "active_version", "newest_version", "changed_at")
_OF_RESULT: tuple[LiteralString, ...] = tuple(each for each in RESULTS.fields if each not in ("job_id", "policy_id"))


async def insert(tx: Tx, policy: Policy) -> None:
    await tx.run(POLICIES.insert(), **to_params(policy, *POLICIES.fields))


async def insert_version(tx: Tx, version: PolicyVersion) -> None:
    await tx.run(VERSIONS.insert(), **to_params(version, *VERSIONS.fields))


async def get(tx: Tx, policy_id: str) -> Policy | None:
    row = await tx.one(SELECT + " WHERE policies.id = :id", id=policy_id)
    return None if row is None else row_to(Policy, row)


async def hold(tx: Tx, policy_id: str) -> Policy | None:
    """Read a policy, and lock its row until the transaction ends."""
    if await tx.one("SELECT id FROM policies WHERE id = :id FOR UPDATE", id=policy_id) is None:
        return None
    return await get(tx, policy_id)


async def at(tx: Tx, organization_id: str, place: str, name: str) -> Policy | None:
    """Return the policy of this name at the group or module with this path."""
    row = await tx.one(
        SELECT + " WHERE policies.organization_id = :organization_id AND policies.name = :name"
        " AND coalesce(groups.path, modules.path) = :place",
        organization_id=organization_id,
        name=name,
        place=place,
    )
    return None if row is None else row_to(Policy, row)


async def of_organization(tx: Tx, organization_id: str) -> list[Policy]:
    """Return all policies of an organization; `service.MAX_POLICIES` bounds them."""
    sql = (
        SELECT
        + " WHERE policies.organization_id = :organization_id ORDER BY coalesce(groups.path, modules.path), policies.name"
    )
    return rows_to(Policy, await tx.all(sql, organization_id=organization_id))


async def change(tx: Tx, after: Policy) -> None:
    """Write what may change of a policy that the transaction holds."""
    await tx.run(
        f"UPDATE policies SET {assignments(*_CHANGED)} WHERE id = :id", id=after.id, **to_params(after, *_CHANGED)
    )


async def delete(tx: Tx, policy_id: str) -> None:
    await tx.run("DELETE FROM policies WHERE id = :id", id=policy_id)


async def count(tx: Tx, organization_id: str) -> int:
    return await tx.value("SELECT count(*) AS found FROM policies WHERE organization_id = :id", id=organization_id)


async def versions(tx: Tx, policy_id: str) -> list[PolicyVersion]:
    """Return the versions of a policy, the newest first."""
    return await VERSIONS.all(tx, "FROM policy_versions WHERE policy_id = :id ORDER BY number DESC", id=policy_id)


async def version(tx: Tx, policy_id: str, number: int) -> PolicyVersion | None:
    return await VERSIONS.find(tx, policy_id=policy_id, number=number)


async def save_results(tx: Tx, results: Sequence[PolicyResult]) -> None:
    """Keep what policies have said about the plan of a job, instead of what they said about an earlier one."""
    await tx.each(
        RESULTS.insert_batch(*RESULTS.fields)
        + f" ON CONFLICT (job_id, policy_id) DO UPDATE SET {excluded_assignments(*_OF_RESULT)}",
        RESULTS.types,
        [values(each, *RESULTS.fields) for each in sorted(results, key=lambda each: (each.job_id, each.policy_id))],
    )


async def remarkable(tx: Tx, job_ids: Sequence[str]) -> dict[str, list[PolicyResult]]:
    """Return by job what policies have said that is more than that its plan passes."""
    rows = await tx.each(
        f"""SELECT {RESULTS.columns} FROM batch JOIN policy_results ON policy_results.job_id = batch.job_id
        WHERE policy_results.verdict <> 'passed' ORDER BY policy_results.name, policy_results.policy_id""",
        {"job_id": "text"},
        [(each,) for each in job_ids],
    )
    found: dict[str, list[PolicyResult]] = {}
    for each in rows_to(PolicyResult, rows):
        found.setdefault(each.job_id, []).append(each)
    return found


async def results(tx: Tx, job_id: str) -> list[PolicyResult]:
    """Return what each policy has said last about the plan of a job."""
    return await RESULTS.all(tx, "FROM policy_results WHERE job_id = :id ORDER BY name, policy_id", id=job_id)
