"""One attempt's OpenTofu or Terraform: its commands, its environment, and the files that it reads beside the source."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from terracrew.engine_rules import flags as engine_flags
from terracrew.errors import Conflict
from terracrew.executor.engines import memory, plan_summary
from terracrew.executor.engines.contract import (
    ApiAccess,
    EngineContext,
    EngineSession,
    FailureDetails,
    InitFile,
    StateAccess,
)
from terracrew.executor.engines.hcl import (
    backend_override,
    blocks,
    failure,
    kept_init,
    lockfile,
    plan_for_hooks,
    plan_for_show,
    plugins,
    shown_plan,
)
from terracrew.executor.engines.hcl import (
    state as states,
)
from terracrew.executor.engines.hcl.backend_override import OVERRIDE_FILE
from terracrew.executor.engines.hcl.dialect import Dialect, find_operator_paths
from terracrew.plan_diff.document import PlanDescription
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.plan_diff.values import Mask
from terracrew.protocol.events import Output, OutputsRead, PlanSummary
from terracrew.protocol.spec import Step
from terracrew.source_rules import configurations
from terracrew.toolchains import specs
from terracrew.toolchains.discovery import FoundEngine

INPUTS_FILE = "~terracrew.auto.tfvars.json"
"""This name sorts after a module's own files of this kind, so that the inputs set on the server take precedence."""
_CONFIG = b"# Written for one attempt, so that no other configuration of this machine is read.\n"
_INTERRUPTED = re.compile(r"^Interrupt received\.", re.M)


class _PrintedOutput(msgspec.Struct):
    value: msgspec.Raw
    type: msgspec.Raw = msgspec.Raw(b"null")
    sensitive: bool = False


class HclSession(EngineSession):
    describes_plans = has_plan_json = has_plans_to_show = keeps_init = True
    orderly_exit_codes = frozenset({0, 1})
    """A failed apply ends with 1. Go's own fatal errors end with 2, and a panic with 11."""

    def __init__(self, dialect: Dialect, found: FoundEngine, context: EngineContext) -> None:
        self._dialect, self._program, self._context = dialect, found.path, context
        self._files = context.files
        self._plugins = plugins.of_attempt(context.runner_environment, context.cache_directory, context.files)
        self._outputs = msgspec.json.Decoder(dict[str, _PrintedOutput])
        self._patterns = configurations.PATTERNS[dialect.name]
        self._lock_before = b""
        """The lock file as the source has it, before `init`."""
        if specs.is_too_old(spec := specs.get(dialect.name), found.version):
            raise specs.too_old(spec, found.version, found.path)

    def prepare(self, inputs: Mapping[str, object], *, has_our_backend: bool) -> None:
        folder = self._context.folder
        for name in (INPUTS_FILE, OVERRIDE_FILE, backend_override.SHADOWING_FILE):
            if os.path.lexists(folder / name):
                raise Conflict(f"the source has a file {name}, a name that Terracrew needs: rename it")
        if self._context.is_uploaded_for_job:
            kept_init.remove_sent(folder, self._context.workspace)
        if has_our_backend:
            found = blocks.backend_blocks(folder, self._patterns)
            backend_override.check(
                found,
                self._context.server_hosts,
                is_uploaded_for_job=self._context.is_uploaded_for_job,
                state_paths=self._context.state_paths,
            )
            _write(folder / OVERRIDE_FILE, backend_override.CONTENT)
        if inputs:
            _write(folder / INPUTS_FILE, msgspec.json.encode(inputs))

    def declared_inputs(self) -> set[str]:
        return blocks.declared_variables(self._context.folder, self._patterns)

    def environment(self, base: Mapping[str, str], api: ApiAccess) -> dict[str, str]:  # noqa: ARG002  (`base` has its token)
        env = dict(base)
        env.pop("TF_DATA_DIR", None)  # two attempts would share it
        env |= {"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}
        env |= memory.collector_environment(env, self._context.memory_mb, len(lockfile.read(self._context.folder)))
        self._plugins.private.mkdir(mode=0o700, exist_ok=True)  # an engine refuses to start without it
        env |= plugins.environment(self._plugins.private)
        self._choose_configuration(env)
        return env

    def state_environment(self, base: Mapping[str, str], access: StateAccess) -> dict[str, str]:
        # These are set only in the environment, because arguments would become part of the saved plan.
        addresses = {f"TF_HTTP_{name}ADDRESS": access.url for name in ("", "LOCK_", "UNLOCK_")}
        methods = {"TF_HTTP_UPDATE_METHOD": "POST", "TF_HTTP_LOCK_METHOD": "LOCK", "TF_HTTP_UNLOCK_METHOD": "UNLOCK"}
        credentials = {"TF_HTTP_USERNAME": access.user, "TF_HTTP_PASSWORD": access.secret}
        engine_flags.check_workspace(base)
        return {**base, **addresses, **methods, **credentials}

    def arguments(self, step: Step, *, is_destroying: bool, flags: Sequence[str] = ()) -> list[str]:
        match step:
            case Step.INIT:
                options = ["init", "-input=false", *flags]
            case Step.VALIDATE:
                options = ["validate", *flags]
            case Step.PLAN:
                destroy = ["-destroy"] if is_destroying else []
                # `-json-into` is not used: everything that runs while the plan is made could replace the file with the events.
                options = ["plan", "-input=false", *destroy, *flags, f"-out={self._files.new_plan}"]
            case Step.APPLY | Step.DESTROY:
                options = ["apply", "-input=false", *flags, str(self._files.plan)]
            case Step.OUTPUT:
                options = ["output", "-json", *flags]
            case _:
                raise ValueError(f"{step} is not a command of {self._dialect.title}")
        return [self._program, *options]

    def before(self, step: Step) -> None:
        if step is Step.INIT:
            self._lock_before = lockfile.content(self._context.folder)
            self._plugins.provide(self._context.folder)

    def after(self, step: Step) -> None:
        if step is Step.INIT:
            self._plugins.relink(self._context.folder)

    def facts_arguments(self) -> list[str]:
        return self.description_arguments()

    def summarize(self, facts: bytes | None, state: bytes | None) -> PlanSummary:
        assert facts is not None
        return plan_summary.summarize(shown_plan.facts(facts), None if state is None else states.count(state))

    def description_arguments(self) -> list[str]:
        return [self._program, "show", "-json", str(self._files.plan)]

    def describe(self, printed: bytes) -> PlanDescription:
        return shown_plan.description(printed)

    def plan_json(self, printed: bytes, mask: Mask) -> bytes:
        return plan_for_hooks.masked(printed, mask)

    def schema_arguments(self, printed: bytes) -> list[str] | None:
        return [self._program, "providers", "schema", "-json"] if plan_for_show.has_resources(printed) else None

    def plan_to_show(self, printed: bytes, schemas: bytes | None, mask: Mask) -> PlanJson:
        return plan_for_show.build(printed, schemas, mask)

    def outputs(self, printed: bytes) -> OutputsRead:
        decode = msgspec.json.decode
        found = {
            name: Output(decode(one.value), decode(one.type), one.sensitive)
            for name, one in sorted(self._outputs.decode(printed).items())
        }
        return OutputsRead(found, hashlib.sha256(msgspec.json.encode(found)).hexdigest())

    def is_ready(self) -> bool:
        """Return whether all providers exist. A provider may be a link into a cache, and another machine's cache may not have it."""
        providers = self._context.folder / ".terraform" / "providers"
        return not any(  # `os.walk` lists a broken link as a file
            not os.path.exists(os.path.join(folder, name)) for folder, _, files in os.walk(providers) for name in files
        )

    def read_by_init(self, flags: Sequence[str], environment: Mapping[str, str]) -> list[str | bytes]:
        folder = self._context.folder
        kept_init.check(folder, self._patterns, flags, environment)
        self._lock_before = lockfile.content(folder)
        return [plugins.platform(), self._lock_before, *kept_init.configurations(self._dialect, environment)]

    def made_by_init(self, *, has_our_backend: bool) -> list[InitFile]:
        folder, workspace = self._context.folder, self._context.workspace
        return kept_init.capture(folder, workspace, has_our_backend=has_our_backend, lock_before=self._lock_before)

    def place_init(self, files: Sequence[InitFile]) -> None:
        kept_init.place(self._context.folder, self._plugins.shared, files)

    def remove_init(self) -> None:
        kept_init.remove(self._context.folder, self._context.workspace, self._lock_before)

    def is_init_missing(self, printed: str) -> bool:
        return kept_init.is_missing(printed)

    @property
    def readable_paths(self) -> Sequence[Path]:
        return [self._plugins.shared]

    @property
    def operator_paths(self) -> Sequence[str]:
        return find_operator_paths(self._dialect, self._context.runner_environment)

    @property
    def missing_downloads(self) -> Sequence[str]:
        return self._plugins.missing(self._context.folder)

    def leave_out_damaged(self, printed: str) -> Sequence[str]:
        return self._plugins.leave_out_damaged(self._context.folder, printed)

    @property
    def leftover(self) -> Path:
        return self._context.folder / "errored.tfstate"

    def has_ended_in_order(self, code: int, printed: str) -> bool:
        return code == 0 or (code in self.orderly_exit_codes and not failure.has_lost_changes(printed))

    def has_received_interrupt(self, printed: str) -> bool:
        return _INTERRUPTED.search(printed) is not None

    def failure_details(self, printed: str) -> FailureDetails:
        return failure.details(printed)

    def without_destroyed(self, state: bytes, destroyed: Mapping[str, str]) -> bytes:
        return states.without_destroyed(state, destroyed)

    def refused_imports(self, printed: str, addresses: Sequence[str]) -> Sequence[str]:
        return failure.refused_imports(printed, addresses)

    def _choose_configuration(self, env: dict[str, str]) -> None:
        """Use the configuration of the runner's operator, which may name mirrors, or an empty one if there is none."""
        if Path(env.get("TF_CLI_CONFIG_FILE", "/nowhere")).is_file():
            return
        env.pop("TF_CLI_CONFIG_FILE", None)
        if any((Path(env.get("HOME", "/nowhere")) / name).is_file() for name in self._dialect.home_configurations):
            return
        path = self._context.files.provided / f"{self._dialect.name}rc"
        if not path.exists():
            _write(path, _CONFIG)
        env["TF_CLI_CONFIG_FILE"] = str(path)


def _write(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
