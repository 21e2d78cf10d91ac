"""The plan of a run in the two forms in which command lines ask for it. Neither has sensitive values: those never leave the runner."""

import asyncio
from typing import Literal, TypeAlias

import msgspec

from terracrew.errors import Invalid, NotFound
from terracrew.plan_diff import plan_json
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.plans import json_store
from terracrew.server.jobs.plans.json_store import StoredPlanJson
from terracrew.server.objects import Objects
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content
from terracrew.server.state.diff_process import DiffProcess
from terracrew.server.terminals import names

PlanForm: TypeAlias = Literal["json-output", "json-output-redacted"]
_SHOWN = ("output_changes", "resource_changes", "resource_drift", "relevant_attributes")
"""The sections of a plan from which a command line makes what people read."""
_sections = msgspec.json.Decoder(dict[str, msgspec.Raw])


async def find(tx: Tx, who: Principal, plan_id: str) -> StoredPlanJson:
    """Return the JSON of a plan. It has all values of the state that are not sensitive, so reading it takes the right to read states."""
    job = await jobs.find(tx, who, names.job_id(plan_id), Verb.JOB_READ)
    await jobs.find(tx, who, job.id, Verb.STATE_READ)
    found = await json_store.get(tx, job.id)
    if found is None or not job.needs_plan_json:  # what policies were shown has no schemas
        raise NotFound(
            f"nothing is kept of the plan of job {job.number} that could be shown: it was made without `-out`, its log says why, or it "
            "was removed with its log"
        )
    return found


async def read(
    objects: Objects, keys: Keyring, diffs: DiffProcess, who: Principal, stored: StoredPlanJson, form: PlanForm
) -> bytes:
    """Return the document. It may be large, so only one is read at a time, and one for each principal."""
    async with diffs.turn(who):
        if stored.object is not None:
            plain = (await content.read_object(objects, keys, stored.module_id, stored.object)).content
        else:
            plain = keys.decrypt(stored.content or b"", json_store.context(stored.job_id))
        return await asyncio.to_thread(_in_form, plain, form)


def _in_form(packed: bytes, form: PlanForm) -> bytes:
    found = plan_json.unpack(packed)
    return bytes(found.plan) if form == "json-output" else _redacted(found)


def _redacted(found: PlanJson) -> bytes:
    """Return what a command line needs to show the plan to people: its changes, and the schemas of what changes."""
    try:
        sections = _sections.decode(found.plan)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the JSON of this plan cannot be read: {error}") from error
    shown = {name: sections[name] for name in _SHOWN if name in sections}
    return msgspec.json.encode(
        {
            "plan_format_version": sections.get("format_version"),
            **shown,
            "provider_format_version": found.provider_format_version,
            "provider_schemas": found.provider_schemas,
        }
    )
