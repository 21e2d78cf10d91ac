"""Uses up the once tokens of the instances that have claimed jobs, in the transaction of the claims, and gives them back."""

from collections.abc import Sequence

from terracrew.protocol.messages import AttemptRef
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Row, Tx
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.runners.once_tokens import store


async def use(tx: Tx, claimed: Sequence[Row]) -> set[str]:
    """Use up the token of each claimed job whose instance has one. Returns the jobs whose claims must be undone.

    These are the claims of a token that another claim has used, maybe of the same transaction, that has expired or was revoked.
    The tokens are used in the order of their ids, so that two transactions never wait for each other.
    """
    refused: set[str] = set()
    with_token = [row for row in claimed if row["once_token_id"] is not None]
    for row in sorted(with_token, key=lambda row: (row["once_token_id"], row["id"])):
        token_id: str = row["once_token_id"]
        runner = await store.use(tx, token_id, row["id"], row["attempt"], row["instance_id"])
        if runner is None:
            refused.add(row["id"])
        else:
            await _record(tx, runner, token_id, row)
    return refused


async def give_back(tx: Tx, ref: AttemptRef, number: int) -> None:
    """Give back the token that this attempt has used up, because its grant was never sent. `number` is the number of its job."""
    if found := await store.give_back(tx, ref.job_id, ref.attempt):
        details = {"path": found["path"], "runner": found["path"], "token": found["token_id"]}
        details |= {"number": number, "attempt": ref.attempt}
        organization_id = found["organization_id"]
        await audit.record(
            tx, SYSTEM, "runner.once_token_return", "runner", found["id"], details, organization_id=organization_id
        )


async def _record(tx: Tx, runner: Row, token_id: str, job: Row) -> None:
    who = Principal("runner", runner["id"], runner["name"], runner["organization_id"], address=runner["address"])
    details = {"path": runner["path"], "runner": runner["path"], "instance": runner["instance"], "token": token_id}
    details |= {"number": job["number"], "attempt": job["attempt"]}
    organization_id = job["organization_id"]
    await audit.record(
        tx, who, "runner.once_token_use", "runner", runner["id"], details, organization_id=organization_id
    )
