"""The contract of an engine: everything that an executor has to know about a program in order to run jobs with it.

An `Engine` is registered under its name (see `terracrew.plugins`) and knows nothing about a particular job. It opens an
`EngineSession` for each attempt. Both are base classes: an engine has to implement the abstract part, and the rest has defaults for
an engine that does not have it. `terracrew.testing.engine_contract` tests both against the real program.
"""

# ruff: noqa: ARG002 (a default does not use its arguments)

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from terracrew import plugins
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Invalid
from terracrew.plan_diff.document import PlanDescription
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.plan_diff.values import Mask
from terracrew.protocol import events
from terracrew.protocol.events import OutputsRead, PlanSummary
from terracrew.protocol.spec import Step
from terracrew.toolchains.discovery import FoundEngine


class EngineContext(msgspec.Struct, frozen=True):
    """Where an attempt runs its engine."""

    folder: Path
    """The folder with the module's root files, in the attempt's own copy of the source. The engine runs here."""
    files: EngineDirectory
    """The files that the engine reads and writes beside the module's own files."""
    cache_directory: Path
    """Shared by all attempts of the runner; the engine can only read it."""
    runner_environment: Mapping[str, str]
    """The environment of the runner, without Terracrew's own variables."""
    module_environment: Mapping[str, str] = {}
    """The environment variables that are set for the module."""
    workspace: Path = Path("/nowhere")
    """The attempt's own copy of the source, which the folder is in."""
    memory_mb: int | None = None
    """How much memory all processes of the attempt can use together; None if that is not known."""
    server_hosts: frozenset[str] = frozenset()
    """The host names of the server, in lower case and with the port if it is not 443: a source may name it by any of them."""
    is_uploaded_for_job: bool = False
    """Whether the source is an archive that was uploaded for this one job, by the person who asked for it."""
    state_paths: frozenset[str] = frozenset()
    """The paths of the module's state on the server, as a source may give them to the backend `http`."""


class DownloadContext(msgspec.Struct, frozen=True):
    """How a runner lets an engine download something for all attempts."""

    cache_directory: Path
    """The same as in `EngineContext`; here, the engine writes to it."""
    environment: Mapping[str, str]
    """The environment of the runner, without Terracrew's own variables."""
    engine_paths: Sequence[str]
    """Where the program is looked for first."""


class StateAccess(msgspec.Struct, frozen=True):
    """The state backend of this attempt: an HTTP server on loopback with GET, POST, DELETE, LOCK and UNLOCK on one URL."""

    url: str
    user: str
    secret: str
    module_key: bytes = b""
    """A key of the module, which the server keeps. An engine that encrypts secrets in its state can use it."""


class ApiAccess(msgspec.Struct, frozen=True):
    """The server as the engine may use it, for modules and providers that the server hosts. The environment of every job also has
    the token, as `TF_TOKEN_<host>`."""

    server_url: str
    token: str


class StateIdentity(msgspec.Struct, frozen=True):
    """What tells the states of a module apart. The server compares these values and does not read the state itself."""

    serial: events.Count
    """Grows with every state that the engine writes. An engine without such a number derives one, for example from the time."""
    lineage: events.Line
    """The same for all states that describe the same resources; any text that the engine chooses."""
    resources: events.Count | None = None
    """How many resource instances the state holds. None if that cannot be read: the engine may have encrypted it."""
    is_unfinished: bool = False
    """Whether the state says that something was begun and does not say how it ended. Only a state that an engine writes during
    a change, too, can say this."""


class FailureDetails(msgspec.Struct, frozen=True):
    """What the output of a failed engine says about the reason. A field is empty if the output does not say it."""

    error: str = ""
    """The first error, in one line."""
    memory_error: str = ""
    """The line in which the engine reports that it got no memory."""
    held_lock: str = ""
    """Who holds the lock of the state, if the engine says that another run does: `locked by root@host since 17:30 (lock 5ce1)`.
    Empty for every other reason for which the engine did not get the lock, because that may go away by itself."""


class InitFile(msgspec.Struct, frozen=True):
    """A file that `init` made."""

    path: str
    """Relative to the folder of the module."""
    content: bytes


class EngineSession(ABC):
    """The engine as one attempt runs it."""

    # ---- before its commands

    encrypts_inputs = False
    """Whether the engine keeps secret inputs encrypted. Others are given them with all inputs."""

    @abstractmethod
    def prepare(self, inputs: Mapping[str, object], *, has_our_backend: bool) -> None:
        """Write the files that the engine reads beside the source. Raises an error if the source cannot work with our backend."""

    def declared_inputs(self) -> Collection[str] | None:
        """Return the names of the inputs that the source declares; None if it does not say it, so that every input is given."""
        return None

    def encrypt_inputs(self, inputs: Mapping[str, object], environment_: Mapping[str, str]) -> None:
        """Write these inputs, which are secret, after `prepare` has written the others. Only for a state that Terracrew holds.
        The environment is that of the commands, which has the key."""
        raise NotImplementedError

    @abstractmethod
    def environment(self, base: Mapping[str, str], api: ApiAccess) -> dict[str, str]:
        """Return the environment of all commands, made from the environment of the job."""

    @abstractmethod
    def state_environment(self, base: Mapping[str, str], access: StateAccess) -> dict[str, str]:
        """Return the environment with what makes the engine read and write its state through the attempt's backend."""

    # ---- its commands

    @abstractmethod
    def arguments(self, step: Step, *, is_destroying: bool, flags: Sequence[str] = ()) -> list[str]:
        """Return the command of a step, the program first. `flags` are what people add to it, and are checked already. Raises
        ValueError for a step that is not a command. A plan is written to `EngineContext.files.new_plan`; every later command
        reads it at `files.plan`, where the executor puts it."""

    def before(self, step: Step) -> None:  # noqa: B027  (an engine may have nothing to do)
        """Prepare for the command of a step, which starts next."""

    def after(self, step: Step) -> None:  # noqa: B027
        """Finish the command of a step, which has succeeded."""

    # ---- what its commands said

    @abstractmethod
    def has_ended_in_order(self, code: int, printed: str) -> bool:
        """Whether an engine that ended a mutating step like this has saved, or left, everything that it made."""

    @abstractmethod
    def has_received_interrupt(self, printed: str) -> bool:
        """Whether the engine says that it is already stopping. A second interrupt would make it give up its state."""

    @abstractmethod
    def failure_details(self, printed: str) -> FailureDetails:
        """Find the reason of a failure in the last part of what the engine printed, without colours."""

    @abstractmethod
    def outputs(self, printed: bytes) -> OutputsRead:
        """Read the outputs from what the command of the output step printed. Raises ValueError if that is not possible."""

    # ---- its plan

    describes_plans = False
    """Whether the engine can say what its plan would do to each attribute. Jobs of others have no diff."""
    has_plan_json = False
    """Whether hooks can read its plans as JSON; it describes its plans, too. Hooks of others are given the file of the plan only."""

    def facts_arguments(self) -> list[str] | None:
        """Return a second command, which prints facts about the plan that was just made; None if that plan's own command wrote
        them to a file, which code that the engine runs could change. What it prints may have secrets in it: it is kept in
        memory only, and not logged. If it fails, the plan fails."""
        return None

    @abstractmethod
    def summarize(self, facts: bytes | None, state: bytes | None) -> PlanSummary:
        """Return what the plan that was just made would do. `facts` is what the command of `facts_arguments` printed; None
        without such a command. `state` is the state that the plan was made from; None if the engine keeps it elsewhere."""

    def description_arguments(self) -> list[str] | None:
        """Return the command that prints the description of the plan that was just made; None if that plan's own command wrote
        it to a file. If it is the same command as that of `facts_arguments`, it runs once. Its output is kept in memory only,
        and not logged."""
        return None

    def describe(self, printed: bytes) -> PlanDescription:
        """Read the description, from what the command printed (nothing without a command). Raises Invalid if that is not possible."""
        raise NotImplementedError

    def plan_json(self, printed: bytes, mask: Mask) -> bytes:
        """Return the plan that was just made as one JSON document, without the values that are sensitive. `printed` is the same as
        for `describe`; `mask` replaces the secrets that the executor knows in a text. Raises Invalid if that is not possible. It is
        called in a thread."""
        raise NotImplementedError

    has_plans_to_show = False
    """Whether a command line at another place can show its plans (`show SAVED`). It describes its plans, too."""

    def schema_arguments(self, printed: bytes) -> list[str] | None:
        """Return the command that prints the schemas which such a command line needs to show this plan; None if it needs none.
        `printed` is the same as for `describe`. Raises Invalid if it is not the description of a plan."""
        return None

    def plan_to_show(self, printed: bytes, schemas: bytes | None, mask: Mask) -> PlanJson:
        """Return the plan for such a command line, without the values that are sensitive. `schemas` is what the command printed. It is
        called in a thread. Raises Invalid if it is not possible."""
        raise NotImplementedError

    # ---- its init

    keeps_init = False
    """Whether `init` need not run again as long as nothing that it reads has changed (ADR 0060). Each of the functions that have
    to do with it raises Invalid, with the reason, where `init` has to run."""

    def needs_init(self) -> bool:
        """Whether `init` has something to do for this source."""
        return True

    def is_ready(self) -> bool:
        """Whether everything that `init` fetched is still there, in a workspace that was restored."""
        return True

    def read_by_init(self, flags: Sequence[str], environment: Mapping[str, str]) -> list[str | bytes]:
        """Return what `init` reads besides the source, the inputs, the flags and the environment. It is called before `init` runs."""
        raise NotImplementedError

    def made_by_init(self, *, has_our_backend: bool) -> list[InitFile]:
        """Return the files that `init` made and a later job of the module can use. None of them may hold a secret or a state."""
        raise NotImplementedError

    def place_init(self, files: Sequence[InitFile]) -> None:
        """Make the workspace what `init` would make of it."""
        raise NotImplementedError

    def remove_init(self) -> None:
        """Remove everything that `init` or `place_init` made."""
        raise NotImplementedError

    def is_init_missing(self, printed: str) -> bool:
        """Whether a failed command says that `init` has to run first."""
        raise NotImplementedError

    def leave_out_damaged(self, printed: str) -> Sequence[str]:
        """Return the items of the shared cache that this module uses and that are damaged, after a command failed with this output.
        The next `init` gets them elsewhere, and they are among `missing_downloads` then. It is called in a thread."""
        return ()

    @property
    def missing_downloads(self) -> Sequence[str]:
        """What `init` had to download because the shared cache did not have it, as items for `Engine.download`."""
        return ()

    # ---- its state

    @property
    @abstractmethod
    def leftover(self) -> Path:
        """Where the engine leaves a state that it could not give to its backend: inside the workspace, or in the directory of
        what the engine produces."""

    @property
    def state_file(self) -> Path | None:
        """The file in which the engine keeps its state, in the directory of what the engine produces; None for an engine that
        reaches the attempt's backend by HTTP.

        If Terracrew holds the state, it is placed in this file before each command. While a mutating command runs, the executor
        records every content that the engine gives the file. The engine replaces the file as a whole; it is also its `leftover`.
        """
        return None

    def initial_state(self) -> bytes:
        """Return the content of the file for a module without a state."""
        raise NotImplementedError

    def place_state(self, content: bytes) -> None:
        """Write the file, and remove what an earlier command left beside it, such as its lock. Links are not followed."""
        raise NotImplementedError

    def state_warning(self, state: bytes) -> str:
        """Return a sentence for the log of the plan if the state tells that an earlier change was cut short; otherwise ''."""
        return ""

    def without_destroyed(self, state: bytes, destroyed: Mapping[str, str]) -> bytes:
        """Return the state without these resources (address → id), which no longer exist, if the engine can import resources."""
        return state

    def refused_imports(self, printed: str, addresses: Sequence[str]) -> Sequence[str]:
        """Return those of these addresses that, as the output of a failed plan tells, could not be imported."""
        return ()

    # ---- what the isolation allows

    @property
    @abstractmethod
    def readable_paths(self) -> Sequence[Path]:
        """Paths outside the workspace that the engine has to read and execute."""

    @property
    def operator_paths(self) -> Sequence[str]:
        """Absolute paths that the operator of this machine set up for the engine, such as its configuration or a mirror. The
        engine may read and execute them as well, except the parts that hold the runner's own files."""
        return ()


class Engine(ABC):
    """An engine, as it is registered. It is shared by all attempts and has no state of its own."""

    name: str
    steps: frozenset[Step]
    """The steps that this engine has. Of other steps of a job, only the hooks run; without hooks they are reported as skipped."""
    configuration_patterns: Sequence[str]
    """Patterns for the names of configuration files (`*.tf`). A folder without such a file is refused, because many engines would
    destroy everything that exists there."""
    validates_in_plan = False
    """Whether the plan makes all checks of the validate step. That step then runs only for modules that add something to it."""

    @abstractmethod
    def find(self, paths: Sequence[str]) -> FoundEngine:
        """Find the program on this machine, first in these directories. Raises EngineMissing if it is not installed."""

    @abstractmethod
    def find_all(self, paths: Sequence[str]) -> Sequence[FoundEngine]:
        """Find every version of the program on this machine, the one that `find` returns first. Returns nothing if there is none."""

    @abstractmethod
    def open(self, found: FoundEngine, context: EngineContext) -> EngineSession:
        """Open a session for one attempt. Raises EngineMissing if the program that was found cannot be used."""

    @abstractmethod
    def identify_state(self, content: bytes) -> StateIdentity:
        """Read the identity of a state. Raises Invalid if the content is not a state."""

    @abstractmethod
    def emptied_state(self, content: bytes) -> bytes:
        """Return the state that replaces this one when the engine deletes its state."""

    def sensitive_outputs(self, content: bytes) -> Mapping[str, object]:
        """Return the values of the sensitive outputs of a state, by name; nothing if they cannot be read. They are masked in the log."""
        return {}

    def has_lost_changes(self, printed: str) -> bool:
        """Whether a mutating command that failed and printed this may have changed something that no state records: a plug-in was
        killed before it answered, for example. `has_ended_in_order` of the session has to consider the same."""
        return False

    async def download(self, item: str, context: DownloadContext) -> bool:
        """Download an item of `missing_downloads` into the shared cache. Returns False if there was nothing to do.

        The runner calls this after the attempt. The text of the item may come from a module, so the engine checks it.
        """
        return False

    def drop_damaged(self, context: DownloadContext) -> Sequence[str]:
        """Remove what a disk has damaged from the shared cache. Returns the items (`download`). It reads the whole cache."""
        return ()


def engine_named(name: str) -> Engine:
    """Return the engine of this name. Raises Invalid if no package provides one, or if it gives itself another name.

    Modules, jobs and the records on disk all use the registered name, so an engine with two names would not be found again.
    """
    engine = cast("Engine", plugins.load(plugins.ENGINES, name))
    own_name: object = getattr(engine, "name", None)
    if own_name != name:
        raise Invalid(f"the engine that is registered as {name!r} has the name {own_name!r}: both must be equal")
    return engine
