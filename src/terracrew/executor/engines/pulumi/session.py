"""One attempt's Pulumi: its commands, its environment, and the files that it reads beside the source."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt.engine_directory import read_produced
from terracrew.errors import Conflict
from terracrew.executor.engines import memory, plan_summary
from terracrew.executor.engines.contract import ApiAccess, EngineContext, EngineSession, FailureDetails, StateAccess
from terracrew.executor.engines.pulumi import (
    checkpoint,
    environment,
    failure,
    preview,
    preview_for_hooks,
    project,
    stack_settings,
)
from terracrew.executor.engines.pulumi.project import BackendFolder
from terracrew.executor.engines.pulumi.stack_settings import StackPassphrase
from terracrew.plan_diff.document import PlanDescription
from terracrew.plan_diff.values import Mask
from terracrew.protocol.events import MAX_STATE_BYTES, Output, OutputsRead, PlanSummary
from terracrew.protocol.spec import Step
from terracrew.toolchains import specs
from terracrew.toolchains.discovery import FoundEngine

_MAX_ORDERLY_CODE = 9
"""The exit codes up to this one are those of errors that Pulumi has noticed; 255 is an error inside of it."""
_DESTROY_PLAN = b"Destroys every resource of the state that the plan was made from.\n"


class PulumiSession(EngineSession):
    describes_plans = has_plan_json = encrypts_inputs = True

    def __init__(self, found: FoundEngine, context: EngineContext) -> None:
        if specs.is_too_old(specs.PULUMI, found.version):
            raise specs.too_old(specs.PULUMI, found.version, found.path)
        self._program, self._context = found.path, context
        self._home, self._events = context.files.produced / "home", context.files.produced / "events.jsonl"
        self._is_destroying = self._may_download = False
        self._has_own_passphrase = True
        wanted = context.module_environment.get(project.STACK_VARIABLE) or context.runner_environment.get(
            project.STACK_VARIABLE, project.DEFAULT_STACK
        )
        self._stack = project.checked_stack(wanted, is_qualified=True)

    @cached_property
    def _project(self) -> str:
        return project.project_name(self._context.folder)

    @cached_property
    def _backend(self) -> BackendFolder:
        folder = self._context.files.produced / "backend"
        return BackendFolder(folder, self._project, self._stack.rpartition("/")[2])

    # ---- the state

    @property
    def state_file(self) -> Path:
        return self._backend.stack_file

    def initial_state(self) -> bytes:
        return checkpoint.initial(self._project, self._stack)

    def place_state(self, content: bytes) -> None:
        ours, found = checkpoint.name(self._project, self._stack), checkpoint.identify(content).lineage
        if found != ours:
            raise Conflict(
                f"the state is of the stack {found}, and the source and {project.STACK_VARIABLE} say {ours}. Pulumi would "
                "replace everything. Give the project and the stack their earlier names"
            )
        self._backend.place(content)

    @property
    def leftover(self) -> Path:
        return self._backend.stack_file

    # ---- before and after its commands

    def prepare(self, inputs: Mapping[str, object], *, has_our_backend: bool) -> None:
        project.checked_stack(self._stack, is_qualified=not has_our_backend)
        stack_settings.write(self._context.folder, self._project, self._stack, inputs)

    def encrypt_inputs(self, inputs: Mapping[str, object], environment_: Mapping[str, str]) -> None:
        text = environment_.get(environment.PASSPHRASE_VARIABLES[0])
        passphrase = None if text is None else StackPassphrase(text, is_random=not self._has_own_passphrase)
        stack_settings.write_secrets(self._context.folder, self._project, self._stack, inputs, passphrase)

    def state_warning(self, state: bytes) -> str:
        return checkpoint.pending_warning(state)

    def environment(self, base: Mapping[str, str], api: ApiAccess) -> dict[str, str]:  # noqa: ARG002  (it needs no API)
        self._may_download = environment.may_download(base)
        environment.provide_plugins(self._home, environment.operator_home(self._context.runner_environment))
        commands = environment.of_commands(base, str(self._home), os.path.dirname(self._program))
        return commands | memory.collector_environment(commands, self._context.memory_mb)

    def state_environment(self, base: Mapping[str, str], access: StateAccess) -> dict[str, str]:
        self._has_own_passphrase = any(name in base for name in environment.PASSPHRASE_VARIABLES)
        return environment.with_state(base, self._backend.url, access.module_key)

    def arguments(self, step: Step, *, is_destroying: bool, flags: Sequence[str] = ()) -> list[str]:
        self._is_destroying = is_destroying
        files, events = self._context.files, f"--event-log={self._events}"
        match step:
            case Step.INIT if not self.needs_init():
                # Something has to run between its hooks or with its flags. `install` reads all directories
                # above the source, in which an isolated engine may not look.
                return self._command("plugin", ("ls", *flags), "--non-interactive")
            case Step.INIT:
                without = () if self._may_download else ("--no-plugins",)
                return self._command("install", flags, *without, "--non-interactive")
            case Step.PLAN if is_destroying:
                options = ("destroy", "--refresh", *flags, "--preview-only", events)
            case Step.PLAN:
                options = ("preview", "--refresh", *flags, f"--save-plan={files.new_plan}", events)
            case Step.APPLY:
                options = ("up", "--refresh", *flags, "--yes", "--skip-preview", f"--plan={files.plan}")
            case Step.DESTROY:
                options = ("destroy", "--refresh", *flags, "--yes", "--skip-preview")
            case Step.OUTPUT:
                return self._command("stack", ("output", *flags), "--json", "--show-secrets", *self._where())
            case _:
                raise ValueError(f"{step} is not a command of Pulumi")
        return self._command(*options[:1], options[1:], "--color=always", *self._where())

    def _where(self) -> tuple[str, str]:
        return "--non-interactive", f"--stack={self._stack}"

    def _command(self, name: str, options: Sequence[str], *last: str) -> list[str]:
        return [self._program, name, *options, *last]

    def needs_init(self) -> bool:
        return project.has_dependencies(self._context.folder)

    def before(self, step: Step) -> None:
        if step is Step.PLAN:
            self._events.unlink(missing_ok=True)

    def after(self, step: Step) -> None:
        if step is Step.PLAN and self._is_destroying:
            # There is no saved plan for a destroy: it destroys what the state has, and the server compares the state's version.
            # The engine can write to this directory, so what it may have put there is replaced, and not written through.
            self._context.files.new_plan.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with open(os.open(self._context.files.new_plan, flags, 0o600), "wb") as file:
                file.write(_DESTROY_PLAN)

    # ---- what its commands said

    def summarize(self, facts: bytes | None, state: bytes | None) -> PlanSummary:  # noqa: ARG002  (a file has the facts)
        count = None if state is None else checkpoint.identify(state).resources
        return plan_summary.summarize(preview.facts(self._events), count)

    def describe(self, printed: bytes) -> PlanDescription:  # noqa: ARG002  (a file has the description)
        return preview.description(self._events, is_destroying=self._is_destroying)

    def plan_json(self, printed: bytes, mask: Mask) -> bytes:  # noqa: ARG002  (a file has the events)
        return preview_for_hooks.masked(self._events, mask)

    def outputs(self, printed: bytes) -> OutputsRead:
        """Read the outputs. What is printed does not tell which are secret: the state does."""
        values: dict[str, Any] = msgspec.json.decode(printed, type=dict[str, Any])
        secret = self._secret_outputs(values)
        found = {name: Output(value, None, name in secret) for name, value in sorted(values.items())}
        return OutputsRead(found, hashlib.sha256(msgspec.json.encode(found)).hexdigest())

    def _secret_outputs(self, values: Mapping[str, object]) -> set[str]:
        if not self.state_file.exists():  # the module has a backend of its own: which are secret is not known here
            return set(values)
        return checkpoint.secret_outputs(read_produced(self.state_file, MAX_STATE_BYTES))

    def has_ended_in_order(self, code: int, printed: str) -> bool:
        return code == 0 or (0 < code <= _MAX_ORDERLY_CODE and not failure.has_lost_changes(printed))

    def has_received_interrupt(self, printed: str) -> bool:
        return failure.INTERRUPTED.search(printed) is not None

    def failure_details(self, printed: str) -> FailureDetails:
        return failure.details(printed)

    # ---- what the isolation allows

    @property
    def readable_paths(self) -> Sequence[Path]:
        return [Path(os.path.dirname(self._program))]  # the language hosts are beside the program

    @property
    def operator_paths(self) -> Sequence[str]:
        home = environment.operator_home(self._context.runner_environment)
        return [str(home / "plugins"), str(home / "bin")] if home else []
