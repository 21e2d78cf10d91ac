"""The key under which an engine encrypts the secrets in a module's state: one for each module, and the server keeps it."""

import base64

import pytest

from terracrew.server.tree.modules import module_key
from terracrew.server.tree.modules import store as module_store
from tests.builders.job_rows import KEYS, JobRows, change_instances, change_jobs, change_modules

pytestmark = pytest.mark.feature("J15.encrypted", "J15.pulumi")


async def of_engine(rows: JobRows, engine: str) -> str:
    module_id = await rows.module()
    await change_modules(rows.db, module_id, engine=engine)
    return module_id


async def given_key(rows: JobRows, module_id: str) -> bytes:
    """Return the key that the next job of the module gets, and end the job."""
    instance = await rows.runner()
    engines = {"tofu": "1.12.6", "pulumi": "3.255.0", "theirs": "1.0.0"}
    await change_instances(rows.db, instance.id, engines=engines)
    job_id = await rows.job(module_id)
    key = (await instance.has(job_id)).credentials.module_key
    await rows.db.write(lambda tx: change_jobs(tx, job_id, status="SUCCEEDED", finished_at=tx.now))
    return key


async def test_every_job_of_a_module_gets_the_same_key_and_other_modules_another(rows: JobRows) -> None:
    module_id, other = await of_engine(rows, "pulumi"), await of_engine(rows, "theirs")
    first = await given_key(rows, module_id)
    assert len(first) == 32
    assert await given_key(rows, module_id) == first
    assert await given_key(rows, other) not in (first, b"")


async def test_an_engine_whose_states_only_terracrew_encrypts_gets_no_key(rows: JobRows) -> None:
    module_id = await rows.module()
    assert await given_key(rows, module_id) == b""
    assert await rows.db.read(lambda tx: module_store.sealed_key(tx, module_id)) is None


async def test_the_key_is_stored_encrypted_for_its_module_and_masked_in_logs(rows: JobRows) -> None:
    module_id = await of_engine(rows, "pulumi")
    key = await given_key(rows, module_id)
    sealed = await rows.db.read(lambda tx: module_store.sealed_key(tx, module_id))
    assert sealed is not None
    assert key not in sealed
    assert KEYS.decrypt(sealed, module_key.context(module_id)) == key
    masked = await rows.db.read(lambda tx: module_key.values_to_mask(tx, KEYS, module_id))
    assert masked == [base64.b64encode(key).decode()]
