"""Saves a plan with its workspace until it is approved or applied by another job, and restores one."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from terracrew.attempt import encryption, files
from terracrew.attempt.engine_directory import json_beside
from terracrew.errors import Invalid, Unavailable
from terracrew.executor.control import Control
from terracrew.executor.delivery.transfer import Transfer
from terracrew.executor.disk_reserve import DISK_FULL_ERRORS
from terracrew.executor.engines import plan_file
from terracrew.executor.saved_plan import archive, encrypt
from terracrew.executor.saved_plan.archive import PlanOrigin
from terracrew.executor.sources import workspace
from terracrew.executor.sources.contract import Confinement
from terracrew.protocol.events import KeptPlan
from terracrew.protocol.spec import Resume
from terracrew.toolchains import cache
from terracrew.toolchains.discovery import FoundEngine

_AGAIN_SECONDS = 2.0


def about(engine: FoundEngine) -> PlanOrigin:
    return PlanOrigin(engine.name, engine.version, "_".join(cache.system()))


async def keep(
    engine: FoundEngine,
    plan: Path,
    *,
    directory: Path,
    context: str,
    key: bytes,
    state_version: int,
    plan_sha256: str,
    transfer: Transfer,
    control: Control,
    confinement: Confinement,
    say: Callable[[str], None],
    waits_for_space: bool = True,
) -> KeptPlan:
    """Upload the plan and the workspace of the attempt in this directory. Only an encrypted copy of both is left here."""
    plan_file.check(plan, plan_sha256)
    place, file = workspace.of(directory), directory / files.SAVED_PLAN
    is_full = False
    try:
        pack = partial(_pack, file, key, context, about(engine), plan, place, confinement)
        while (packed := await asyncio.to_thread(pack)) is None:
            if control.is_stopping or not waits_for_space:
                raise Unavailable("the disk of this runner is full")
            if not is_full:
                say("The disk of this runner is full. The plan is saved when there is space again")
            is_full = True
            await asyncio.sleep(_AGAIN_SECONDS)
    finally:
        # The workspace is removed before the result is sent, because the attempt that continues with the plan needs this path.
        await asyncio.to_thread(_clear, directory, plan)
    await transfer.upload("plan", file)
    return KeptPlan(state_version, packed[0], packed[1], str(place), plan_sha256)


async def restore(
    engine: FoundEngine,
    plan: Path,
    resume: Resume,
    *,
    root: Path,
    directory: Path,
    transfer: Transfer,
    confinement: Confinement,
) -> Path:
    """Restore an approved plan and its workspace to their place, and return the workspace. After a failure, nothing is left there."""
    place = Path(resume.path)
    if place.parent != root or not workspace.is_name(place.name, resume.made_job_id):
        raise Invalid(f"it was made in {resume.path}, which is not a workspace of this runner ({root})")
    file = directory / files.SAVED_PLAN
    try:
        if await transfer.download("plan", file, most=plan_file.MAX_PLAN_BYTES) != resume.sha256:
            raise Invalid("the saved plan did not arrive complete: its SHA-256 is not the expected one")
        workspace.claim(root, place.name, directory)
        try:
            context = encryption.saved_plan_context(resume.made_job_id, resume.made_attempt)
            made_with = await asyncio.to_thread(_unpack, file, resume.key, context, plan, place, confinement)
            if plan_file.digest_of(plan) != resume.plan_sha256:
                raise Invalid("the plan in it is not the one that was approved: its SHA-256 is not the expected one")
            if made_with != about(engine):
                raise Invalid(f"it was made with {_name(made_with)}, and this runner has {_name(about(engine))}")
        except BaseException:
            _clear(directory, plan)
            raise
    finally:
        file.unlink(missing_ok=True)
    return place


def _pack(
    file: Path, key: bytes, context: str, what: PlanOrigin, plan: Path, place: Path, confinement: Confinement
) -> tuple[str, int] | None:
    """Return the hash and the size of the encrypted file; None if the disk is full."""
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
            sealing = encrypt.Sealing(out, key, context, most=plan_file.MAX_PLAN_BYTES)
            confinement.within(partial(archive.pack, sealing, what, plan, place), plan.parent, place)
            sealing.finish()
    except OSError as error:
        file.unlink(missing_ok=True)
        if error.errno in DISK_FULL_ERRORS:
            return None
        raise
    return sealing.sha256, sealing.size


def _unpack(file: Path, key: bytes, context: str, plan: Path, place: Path, confinement: Confinement) -> PlanOrigin:
    with file.open("rb") as sealed:
        opened = encrypt.opened(sealed, key, context)
        return confinement.within(partial(archive.unpack, opened, plan, place), plan.parent, place)


def _clear(directory: Path, plan: Path) -> None:
    plan.unlink(missing_ok=True)
    json_beside(plan).unlink(missing_ok=True)
    workspace.release(directory)


def _name(about: PlanOrigin) -> str:
    return f"{about.engine} {about.version} on {about.platform}"
