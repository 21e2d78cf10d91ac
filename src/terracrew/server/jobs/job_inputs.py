"""The inputs of a job: what it was given for itself when it was created, and what its attempts are given when they are claimed."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from terracrew.api.inputs import JobInput, JobInputs, UsedInput
from terracrew.api.jobs import Job
from terracrew.api.steps import StepSettings
from terracrew.masking import names
from terracrew.protocol.spec import ImportedResource
from terracrew.server.db.seam import Row, Tx
from terracrew.server.jobs import input_store, module_outputs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import store as state_store
from terracrew.server.tree.inputs import effective, sealing
from terracrew.server.tree.inputs import reads as input_reads
from terracrew.server.tree.inputs.effective import GivenInputs, JobContent
from terracrew.server.tree.inputs.model import PlacedInput
from terracrew.server.tree.modules import module_key

MAX_GIVEN_BYTES = 2 << 20
"""The largest total of the inputs of one job. A grant has a bounded size, and it also holds the state and the source."""
_content = msgspec.json.Decoder(JobContent)
_used = msgspec.json.Decoder(list[UsedInput])


def context(job_id: str) -> str:
    return f"job-inputs:{job_id}"


async def save_own(tx: Tx, keys: Keyring, contents: Mapping[str, JobContent]) -> None:
    """Store what new jobs are given for themselves."""
    rows = [
        (job_id, keys.encrypt(msgspec.json.encode(content), context(job_id)))
        for job_id, content in sorted(contents.items())
        if content != JobContent()
    ]
    if rows:
        await input_store.insert_own(tx, rows)


async def save_imports(tx: Tx, keys: Keyring, job_id: str, imports: Sequence[ImportedResource]) -> None:
    """Let a job import these resources with its next plan, instead of those that it was to import before."""
    content = (await own(tx, keys, [job_id])).get(job_id, JobContent())
    changed = msgspec.structs.replace(content, imports=list(imports))
    await input_store.replace_own(tx, job_id, keys.encrypt(msgspec.json.encode(changed), context(job_id)))


async def own(tx: Tx, keys: Keyring, job_ids: Sequence[str]) -> dict[str, JobContent]:
    """Return what jobs were given for themselves."""
    found = await input_store.own(tx, job_ids)
    return {job_id: _content.decode(keys.decrypt(sealed, context(job_id))) for job_id, sealed in found.items()}


async def has_secrets(tx: Tx, module_id: str) -> bool:
    """Return whether a secret applies to a module."""
    found = (await input_reads.of_modules(tx, [module_id])).get(module_id, [])
    return any(each.input.kind == "secret" for each in effective.effective_inputs(found))


async def resolve(
    tx: Tx, keys: Keyring, granted: Mapping[str, Row], placed: Mapping[str, list[PlacedInput]]
) -> dict[str, GivenInputs | str]:
    """Return by job what its attempt is given, or a sentence that says why it cannot be.

    `placed` has the inputs that apply to the modules now, so a job that waited gets a secret that was replaced meanwhile.
    """
    contents = await own(tx, keys, [job_id for job_id, row in granted.items() if row["has_own_inputs"]])
    found: dict[str, GivenInputs | str] = {}
    for job_id, row in granted.items():
        content = contents.get(job_id, JobContent())
        everywhere = placed.get(row["module_id"], [])
        inputs = effective.not_replaced(everywhere, content)
        hook_places = _hook_places(row)
        gone = effective.removed_secret(inputs, datetime.fromtimestamp(row["created_at"], UTC))
        size = sum(each.input.size for each in effective.effective_inputs(inputs))
        size += sum(each.size for place in hook_places for each in effective.environment_of_place(everywhere, place))
        if gone is not None:
            found[job_id] = _missing(gone)
        elif size > MAX_GIVEN_BYTES:
            found[job_id] = (
                f"the inputs that apply to the module have {size:,} bytes together, and at most {MAX_GIVEN_BYTES:,} can be given "
                f"to a job, so nothing was started: remove some (terracrew input list {row['module_path']})"
            )
        else:
            destroys = row["type"] == "DESTROY" or bool(row["is_destroy_plan"])
            applying = [each.input for each in effective.effective_inputs(inputs)]
            outputs = await module_outputs.values(tx, keys, applying, destroys=destroys)
            if isinstance(outputs, str):
                found[job_id] = outputs
                continue
            given = effective.resolve(keys, inputs, content, outputs)
            found[job_id] = effective.for_hooks(keys, everywhere, hook_places, given) if hook_places else given
    return found


def _hook_places(row: Row) -> list[str]:
    """Return the groups above a module that have hooks, by their paths."""
    steps: list[StepSettings] = row["steps"]
    return sorted({each.path for each in steps if (each.before or each.after) and each.path != row["module_path"]})


def _missing(gone: PlacedInput) -> str:
    place = f"`{gone.path}`" if gone.path else "the organization"
    return (
        f"the secret {gone.name} of {place} was removed by {gone.set_by_name} after this job was queued, so nothing was started: "
        f"set it again (terracrew input set {gone.path or '/'} {gone.name} --secret), or run the job again without it"
    )


async def record(tx: Tx, given: Mapping[tuple[str, int], GivenInputs]) -> None:
    """Record what attempts are given, without values."""
    rows = [
        (job_id, attempt, msgspec.json.encode(each.used).decode())
        for (job_id, attempt), each in sorted(given.items())
        if each.used
    ]
    if rows:
        await input_store.insert_used(tx, rows)


async def used(tx: Tx, job_id: str, attempt: int | None) -> tuple[int | None, list[UsedInput]]:
    """Return which attempt was given inputs, and which ones: that attempt, or the last one."""
    row = await input_store.used(tx, job_id, attempt)
    return (None, []) if row is None else (row["attempt"], _used.decode(row["used"]))


async def has_current_outputs(tx: Tx, job: Job) -> bool:
    """Return whether a job was given the outputs that the modules which its module needs have now.

    What it was given tells, and not the time: a claim may read outputs while another transaction is about to replace them.
    """
    _, given = await used(tx, job.id, None)
    had = {(each.target, each.name): each.source_job_id for each in given if each.kind == "output"}
    for each in (await input_reads.of_modules(tx, [job.module_id])).get(job.module_id, []):
        if each.kind == "output" and each.sealed is not None:
            row = await state_store.latest_outputs(tx, each.source_module_id or "")
            if row is None or had.get((each.target, each.name)) != row["job_id"]:
                return False
    return True


async def values_to_mask(tx: Tx, keys: Keyring, jobs: Sequence[Job]) -> dict[str, list[str]]:
    """Return the secrets that jobs may print, by job: those that apply to its module, in all kept versions, its own, its outputs,
    and the key of its module."""
    sources = await input_store.masked_sources(tx, ((job.module_id, job.id) for job in jobs))
    return {job.id: await _values_to_mask(tx, keys, job, sources[job.id]) for job in jobs}


async def _values_to_mask(tx: Tx, keys: Keyring, job: Job, sources: input_store.MaskedSources) -> list[str]:
    if sources == input_store.NOTHING_MASKED:
        return []
    placed = (await input_reads.of_modules(tx, [job.module_id])).get(job.module_id, []) if sources.has_inputs else []
    live = [each for each in placed if each.sealed is not None]
    secret = [each for each in live if each.kind == "secret"]
    versions = await input_reads.secret_versions(tx, secret) if secret else []
    content = (await own(tx, keys, [job.id])).get(job.id, JobContent()) if sources.has_own else JobContent()
    found = names.parts_of(sealing.text(keys, each) for each in versions)
    if sources.has_outputs:
        found += await module_outputs.sensitive(tx, keys, job.module_id)
    if sources.has_key:
        found += await module_key.values_to_mask(tx, keys, job.module_id)
    for each in live:
        if each.kind == "literal":
            value = sealing.opened_file(keys, each).content if each.target == "file" else sealing.opened(keys, each)
            found += names.secrets_of({each.name: value})
    outputs = await module_outputs.values(tx, keys, live, destroys=job.only_destroys)
    if not isinstance(outputs, str):
        found += [secret for each in outputs.values() for secret in each.secrets]
    return [*found, *names.secrets_of(content.inputs), *names.secrets_of(content.environment)]


async def used_by(tx: Tx, who: Principal, job: Job, attempt: int | None = None) -> JobInputs:
    """Return what an attempt was given: this one, or the last one that was given anything.

    A module whose output was an input is named only to those who may see it.
    """
    number, given = await used(tx, job.id, attempt)
    placed = (await input_reads.of_modules(tx, [job.module_id])).get(job.module_id, [])
    now = {each.input.id for each in effective.effective_inputs(placed)}
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    given = [
        each
        if each.source_module is None or seen.covers(authorize.module(job.organization_id, each.source_module))
        else msgspec.structs.replace(each, source_module=None, source_job_id=None)
        for each in given
    ]
    items = [JobInput(**msgspec.structs.asdict(each), is_current=not each.id or each.id in now) for each in given]
    return JobInputs(number, items)
