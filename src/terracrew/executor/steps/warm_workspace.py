"""Makes the workspace of a job warm: uses what the `init` of an earlier job of the module made, if nothing that it reads has changed.

What is kept is read right after `init`, before anything of the module runs. So what the rest of a job does to its workspace
never reaches a later job.
"""

import contextlib
import errno
import hashlib
import hmac
import logging
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines.contract import EngineSession, InitFile
from terracrew.executor.sources import workspace
from terracrew.executor.steps import environment
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.spec import Step
from terracrew.protocol.start import WarmSettings
from terracrew.system import trees

MIN_FREE_BYTES = 128 << 20
MIN_FREE_RATIO = 0.1
"""On a small disk, this ratio of its size has to be free instead of MIN_FREE_BYTES. A runner without half of it takes no jobs."""
_MAC_BYTES = hashlib.sha256().digest_size
_log = logging.getLogger("terracrew.executor")


class KeptInit(msgspec.Struct, frozen=True):
    number: int
    """The number of the job that ran `init`."""
    made_at: float
    """When, in seconds since 1970."""
    files: list[InitFile]


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(KeptInit).decode


class WarmCache:
    """What `init` made, kept for later jobs of the same module (ADR 0060). The cache is limited in size and in age.

    An entry is one file: a signature and what it signs. It appears under its name only when it is complete, and an attempt reads the
    whole file at once, so it can be removed at any time. The key of the signature exists only in the memory of the runner and of its
    executors. So an entry of another process, or one that was changed or cut short, is never used. An entry of an earlier runner
    process is not used either.
    """

    def __init__(self, settings: WarmSettings) -> None:
        self._settings, self._folder = settings, Path(settings.directory)

    def name_of(self, read: Iterable[str | bytes]) -> str:
        """Return the name of the entry for an `init` that reads all of this. Nothing can be concluded from the name itself."""
        digest = hmac.new(self._settings.secret, b"name", hashlib.sha256)
        for each in read:
            content = each.encode(errors="surrogateescape") if isinstance(each, str) else each
            digest.update(b"%d:" % len(content))
            digest.update(content)
        return digest.hexdigest()

    def get(self, name: str) -> KeptInit | None:
        """Return an entry that this runner made, and that is young enough; None if there is none."""
        file = self._folder / name
        if (data := self._read(file)) is None:
            return None
        signature, content = data[:_MAC_BYTES], data[_MAC_BYTES:]
        if not hmac.compare_digest(signature, self._signature(name, content)):
            _log.warning("a kept workspace is not what was kept, and is not used: %s", name)
            self.remove(name)
            return None
        entry = _decode(content)
        if not 0 <= time.time() - entry.made_at <= self._settings.max_age_seconds:
            self.remove(name)
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # mark it as used, so that others are removed first
        return entry

    def put(self, name: str, entry: KeptInit) -> bool:
        """Keep an entry, and remove others if the cache is full. Returns False if there is no room for it.

        A disk that is almost full loses the whole cache: jobs need the room more.
        """
        content = _encode(entry)
        if len(content) > self._settings.max_bytes:
            return False
        draft = self._folder / f".{secrets.token_hex(8)}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._has_room(len(content)):
                self.clear()
                return False
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
            with open(descriptor, "wb") as file:
                file.write(self._signature(name, content))
                file.write(content)
            draft.replace(self._folder / name)
        except OSError as error:
            _log.warning("the workspace cannot be kept: %s", error)
            with contextlib.suppress(OSError):
                draft.unlink()
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self.clear()
            return False
        self.prune(name)
        return True

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()

    def clear(self) -> None:
        """Remove every entry."""
        for file in self._folder.iterdir():
            self.remove(file.name)

    def prune(self, kept: str = "") -> None:
        limits = self._settings
        trees.prune_cache(self._folder, max_bytes=limits.max_bytes, max_age_seconds=limits.max_age_seconds, kept=kept)

    def _read(self, file: Path) -> bytes | None:
        """Return the content of a file; None for anything else, which a job without isolation may have put there."""
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > self._settings.max_bytes + _MAC_BYTES:
            os.close(descriptor)
            return None
        with open(descriptor, "rb") as opened:
            return opened.read()

    def _has_room(self, size: int) -> bool:
        disk = shutil.disk_usage(self._folder)
        return disk.free - size >= min(MIN_FREE_BYTES, disk.total * MIN_FREE_RATIO)

    def _signature(self, name: str, content: bytes) -> bytes:
        return hmac.digest(self._settings.secret, name.encode() + b"\0" + content, "sha256")


_FORMAT = "1"
"""Changes with everything that makes older entries wrong."""
_PER_ATTEMPT = frozenset({"TMPDIR"})
_PER_ACCOUNT = frozenset({"HOME", "USER", "LOGNAME"})
"""Variables of the runner's environment that differ between attempts and do not change what `init` makes. The configuration files
in the home directory are compared by their content."""


def enter(context: StepContext) -> bool:
    """Make the workspace warm before `init` would run. Returns False if `init` has to run."""
    settings, session, spec = context.start.warm, context.prepared.session, context.spec
    if settings is None or not session.keeps_init:
        return False
    if context.plan.attempt is not None or any(each.step == Step.INIT for each in spec.hooks):
        return False
    cache = WarmCache(settings)
    try:
        name = cache.name_of(_read_by_init(context))
        if spec.is_fresh:
            cache.remove(name)
            return False
        context.init_name = name
        entry = cache.get(name)
    except (Invalid, OSError, ValueError, RecursionError) as error:
        _log.info("init runs in every job: %s", error)
        return False
    if entry is None or not _place(session, entry):
        return False
    context.kept_from = entry.number
    context.recorder.say(
        f"The workspace is warm: init is kept from job #{entry.number}, because nothing that it reads has changed"
    )
    return True


def _place(session: EngineSession, entry: KeptInit) -> bool:
    try:
        session.place_init(entry.files)
    except (Invalid, OSError) as error:
        _log.info("init runs, because what was kept cannot be used: %s", error)
        session.remove_init()
        return False
    return True


def keep(context: StepContext) -> None:
    """Keep what `init` has made just now, if a later job can use it."""
    settings, session = context.start.warm, context.prepared.session
    if settings is None or not context.init_name:
        return
    try:
        files = session.made_by_init(has_our_backend=context.spec.backend == "terracrew")
        is_kept = WarmCache(settings).put(context.init_name, KeptInit(context.spec.number, time.time(), files))
    except (Invalid, OSError, ValueError, RecursionError) as error:  # such as a name of a file that is not UTF-8
        context.recorder.say(f"The next job runs init again, too: {error}")
    else:
        _log.info("the workspace is kept" if is_kept else "there is no room to keep the workspace")


def leave(context: StepContext) -> bool:
    """Make the workspace cold, after what `init` made, now or earlier, turned out to be of no use. What the next `init` makes is not
    kept: the module has run something here. Returns False if that is not possible, because of what the module did to its workspace."""
    settings, session = context.start.warm, context.prepared.session
    if settings is not None and context.init_name:
        WarmCache(settings).remove(context.init_name)
    context.kept_from = None
    context.init_name = ""
    try:
        session.remove_init()
    except OSError as error:
        context.recorder.say(f"init cannot run again, because what it made cannot be removed: {error}")
        return False
    return True


def _read_by_init(context: StepContext) -> Iterator[str | bytes]:
    """Yield everything that decides what `init` makes."""
    spec, start = context.spec, context.start
    flags = spec.flags.get(Step.INIT, [])
    place = workspace.of(context.directory)
    inside = str(context.prepared.folder.resolve().relative_to(place.resolve()))
    if inside != str(context.prepared.folder.relative_to(place)):
        raise Invalid("a link leads to the folder of the module")
    yield from (_FORMAT, spec.organization_id, spec.module_id, spec.backend)
    yield from (
        context.prepared.found.name,
        context.prepared.found.version,
        os.path.realpath(context.prepared.found.path),
    )
    yield from (context.prepared.resolved.digest, inside)
    yield _encoded(flags)
    yield _encoded(spec.files)
    yield _encoded(context.inputs)
    passed_over = _PER_ATTEMPT | _PER_ACCOUNT if start.engine_account else _PER_ATTEMPT
    yield _encoded({name: value for name, value in start.environment.items() if name not in passed_over})
    defined = {each.name: environment.defined_text(each, spec, context.prepared.resolved) for each in spec.definitions}
    yield _encoded(spec.environment | defined)
    yield from context.prepared.session.read_by_init(flags, context.env)


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic")
