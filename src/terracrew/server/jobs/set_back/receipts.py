"""A receipt of a claim: a sealed copy of the rows that the claim wrote, which the attempt carries with it.

A server whose database was set back does not know an attempt that was claimed since. The attempt shows its receipt, the rows are
written again, and what it logs, delivers and makes is stored as for any other attempt. Only a server that has the
master key can make or read a receipt.
"""

import base64
import zlib
from typing import Any, LiteralString

import msgspec

from terracrew.api.jobs import Attempt, Job
from terracrew.errors import Forbidden, Undecryptable
from terracrew.server.db.seam import Row
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs.store import JOBS
from terracrew.server.secrets import credentials
from terracrew.server.secrets.keyring import Keyring

_CONTEXT = "claim-receipt"
PREFIX: LiteralString = "claimed_"
"""Stands before the names of the columns of a job in a row that has them all."""


class Claimed(msgspec.Struct, frozen=True):
    """What a claim wrote: the columns of the job, and those of its attempt."""

    job: dict[str, Any]
    attempt: int
    runner_id: str
    instance_id: str
    claimed_at: float
    inputs_sha256: str
    hub_sha256: str
    api_sha256: str
    state_key: bytes
    """Encrypted under the master key, as it is stored."""

    def as_job(self) -> Job:
        return row_to(Job, self.job)

    def as_attempt(self) -> Attempt:
        return row_to(
            Attempt,
            {
                "job_id": self.job["id"],
                "number": self.attempt,
                "runner_id": self.runner_id,
                "instance_id": self.instance_id,
                "claimed_at": self.claimed_at,
                "inputs_sha256": self.inputs_sha256,
            },
        )


_decoder = msgspec.json.Decoder(Claimed)


def columns_of(row: Row) -> dict[str, Any]:
    """Return the columns of a job from a row that has them all, each with the prefix. Its plan can be large, and is left out."""
    found = {name: row[f"{PREFIX}{name}"] for name in JOBS.fields if name != "plan"}
    return found | {"has_lost_inputs": bool(row["has_own_inputs"])}


def seal(keys: Keyring, claimed: Claimed) -> str:
    return base64.urlsafe_b64encode(keys.encrypt(zlib.compress(msgspec.json.encode(claimed)), _CONTEXT)).decode()


def open_receipt(keys: Keyring, text: str, credential: str) -> Claimed:
    """Return what a receipt says. It is good only together with the hub credential of its attempt."""
    try:
        claimed = _decoder.decode(zlib.decompress(keys.decrypt(base64.urlsafe_b64decode(text), _CONTEXT)))
    except (Undecryptable, ValueError, zlib.error, msgspec.MsgspecError):
        raise Forbidden("the receipt of this attempt cannot be read with the master key of this server") from None
    if claimed.hub_sha256 != credentials.digest(credential):
        raise Forbidden("this receipt is for another attempt")
    return claimed
