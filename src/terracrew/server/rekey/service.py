"""Encrypts everything again under the newest master key, in small batches, while the server runs.

It may be interrupted at any time: finished ciphertexts begin with the new key's id and are skipped. If a ciphertext is changed
between reading and replacing it, the change wins, because each replacement is a compare-and-set.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from terracrew.api.operations import RekeyProgress
from terracrew.errors import NotFound, TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.server.db import lease
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import reads as jobs
from terracrew.server.objects import Objects
from terracrew.server.rekey import key_holders
from terracrew.server.rekey import progress as progresses
from terracrew.server.rekey.inventory import COLUMNS, FOLDERS, LAST, Column, Folder, key_of
from terracrew.server.rekey.progress import NAME
from terracrew.server.secrets.keyring import HEAD_BYTES, Keyring

PAGE_ROWS = 100
PAUSE_SECONDS = 0.002
"""The pause between two batches, so that other work can run."""
LOOK_SECONDS = 60.0
LEASE_SECONDS = 60.0
MAX_PASSES = 5
"""Another server may still encrypt under an older key while this runs, so everything is checked again until nothing is left to do."""
MAX_HEAD_READS = 8
log = get_logger("terracrew.server")


class _StoppedError(Exception):
    """A person has stopped the rekey, or another server continues it."""


class Rekey:
    """The loop of each server. Only the server that holds the lease does the work."""

    def __init__(self, server_id: str, db: Database, objects: Objects, keys: Keyring) -> None:
        self._server_id, self._db, self._objects, self._keys = server_id, db, objects, keys
        self._progress = RekeyProgress()

    async def run(self) -> None:
        try:
            with self._db.listen(NAME) as wakeups:
                while True:
                    await key_holders.announce(self._db, self._server_id, self._keys)
                    await self.step()
                    await wakeups.get(LOOK_SECONDS)
        finally:
            await key_holders.withdraw(self._db, self._server_id, self._keys)

    async def step(self) -> RekeyProgress:
        """Carry out a requested rekey to its end. Returns the progress."""
        self._progress = await self._db.read(progresses.load)
        if self._progress.status != "running" or self._progress.key_id != self._keys.key_id:
            return self._progress
        if not await lease.acquire(self._db, NAME, self._server_id, LEASE_SECONDS):
            return self._progress
        try:
            await self._encrypt_everything()
        except _StoppedError:
            log.info("the encryption under a new master key was stopped", encrypted=self._progress.encrypted)
        finally:
            await lease.release(self._db, NAME, self._server_id)
        return await self._db.read(progresses.load)

    async def _encrypt_everything(self) -> None:
        self._note(encrypted=0, failed=0, problem="")
        for _ in range(MAX_PASSES):
            before = self._progress.encrypted
            self._note(failed=0, problem="")
            for column in COLUMNS:
                await self._column(column)
            for folder in FOLDERS:
                await self._folder(folder)
            if self._progress.encrypted == before:
                break
        else:
            self._count(0, ["another server still encrypts under an older key: restart it with the newest key first"])
        if others := await self._db.read(lambda tx: key_holders.problem(tx, self._keys.key_id)):
            self._count(0, [others])
        is_whole = not self._progress.failed
        if is_whole:
            await self._column(LAST)
        now = datetime.now(UTC)
        self._note(status="finished" if is_whole else "incomplete", doing="", done=0, finished_at=now)
        await self._save()
        log.info("encryption under a new master key", **msgspec.to_builtins(self._progress))

    async def _column(self, column: Column) -> None:
        self._note(doing=column.name, done=0)
        after = dict(column.first)
        while True:
            await self._save()
            page = await self._db.read_in_background(
                lambda tx, after=after: tx.all(column.page, **after, most=PAGE_ROWS)
            )
            if not page:
                return
            stale = [key_of(column, row) for row in page if bytes(row["head"]) != self._keys.head]
            for start in range(0, len(stale), column.batch_rows):
                await self._replace(column, stale[start : start + column.batch_rows])
                await asyncio.sleep(PAUSE_SECONDS)
            after = key_of(column, page[-1])
            self._note(done=self._progress.done + len(page))

    async def _replace(self, column: Column, batch: Sequence[dict[str, Any]]) -> None:
        async def work(tx: Tx) -> tuple[int, list[str]]:
            count, problems = 0, list[str]()
            for key in batch:
                row = await tx.one(column.get, **key)
                if row is None or row["sealed"] is None:
                    continue  # it was removed meanwhile
                old = bytes(row["sealed"])
                try:
                    new = self._encrypted_anew(old, column.context(row))
                except TerracrewError as error:
                    problems.append(error.message)
                    continue
                count += await tx.run(column.replace, **key, old=old, new=new)
            return count, problems

        self._count(*await self._db.write(work))

    async def _folder(self, folder: Folder) -> None:
        self._note(doing=folder.name, done=0)
        async for page in self._objects.listing(folder.folder):
            await self._save()
            for start in range(0, len(page), MAX_HEAD_READS):
                names = [each.name for each in page[start : start + MAX_HEAD_READS]]
                heads = await asyncio.gather(*(self._head(name) for name in names))
                for name, head in zip(names, heads, strict=True):
                    if head is not None and head != self._keys.head:
                        await self._replace_object(folder, name)
            self._note(done=self._progress.done + len(page))

    async def _head(self, name: str) -> bytes | None:
        try:
            return await self._objects.get_range(name, 0, HEAD_BYTES)
        except NotFound:
            return None

    async def _replace_object(self, folder: Folder, name: str) -> None:
        """Encrypt an object again under the same name. The name contains the hash of the content or the number of a part, so no other
        content is ever stored there.

        If the object is removed at the same moment, this writes it again without a row, and a sweep removes it like any other orphan.
        """
        job_id = folder.job_of(name)
        module_id = await self._db.read(lambda tx: jobs.module_of(tx, job_id))
        if job_id and module_id is None:
            return  # a leftover of a job that was deleted
        try:
            context = folder.context(module_id or "", name)
            old = await self._objects.get(name)
            new = await asyncio.to_thread(self._encrypted_anew, old, context)
        except NotFound:
            return
        except Unavailable:
            raise  # nothing is wrong with the object, and the loop comes back to it
        except (TerracrewError, ValueError) as error:
            self._count(0, [f"{name}: {error}"])
            return
        await self._objects.put(name, new)
        self._count(1, [])
        await self._save()

    def _encrypted_anew(self, old: bytes, context: str) -> bytes:
        return self._keys.encrypt(self._keys.decrypt(old, context), context)

    def _count(self, encrypted: int, problems: Sequence[str]) -> None:
        before = self._progress
        self._note(
            encrypted=before.encrypted + encrypted,
            failed=before.failed + len(problems),
            problem=before.problem or (problems[0] if problems else ""),
        )

    def _note(self, **changes: Any) -> None:
        self._progress = msgspec.structs.replace(self._progress, **changes)

    async def _save(self) -> None:
        """Store the progress and renew the lease. Raises _StoppedError if the work must not continue."""
        progress = self._progress
        is_wanted = await self._db.write(lambda tx: progresses.advance(tx, progress))
        if not is_wanted or not await lease.acquire(self._db, NAME, self._server_id, LEASE_SECONDS):
            raise _StoppedError
