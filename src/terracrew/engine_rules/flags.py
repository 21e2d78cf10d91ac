"""Which arguments people may add to the commands of an engine, as flags or in environment variables, and which would break it."""

import re
import shlex
from collections.abc import Mapping, Sequence

from terracrew.errors import Invalid

MAX_FLAGS = 50
MAX_FLAG_CHARACTERS = 1000
_SHAPE = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*(=.*)?", re.DOTALL)
_HCL_STEPS: Mapping[str, frozenset[str]] = {
    "init": frozenset({"backend", "cloud", "force-copy", "from-module", "migrate-state", "reconfigure"}),
    "validate": frozenset({"json", "json-into"}),
    "plan": frozenset({"destroy", "detailed-exitcode", "generate-config-out", "json", "json-into", "out"}),
    "apply": frozenset({"auto-approve", "backup", "destroy", "json", "json-into"}),
    "destroy": frozenset({"auto-approve", "backup", "destroy", "json", "json-into"}),
    "output": frozenset({"json", "raw"}),
}
_HCL = frozenset({"chdir", "help", "h", "input", "lock", "show-sensitive", "state", "state-out", "version"})
"""Terracrew decides about these itself: who is asked, where the state is, what is written where, and what is shown."""
_PULUMI = frozenset(
    {
        "attach-debugger",
        "client",
        "color",
        "config",
        "config-file",
        "config-path",
        "copilot",
        "cwd",
        "disable-integrity-checking",
        "event-log",
        "exec-agent",
        "exec-kind",
        "help",
        "import-file",
        "json",
        "logflow",
        "logtostderr",
        "memprofilerate",
        "name",
        "neo",
        "neo-task-on-failure",
        "no-plugins",
        "non-interactive",
        "otel-traces",
        "output",
        "plan",
        "preview-only",
        "profiling",
        "remote",
        "remove",
        "save-plan",
        "secrets-provider",
        "shell",
        "show-secrets",
        "skip-preview",
        "stack",
        "strict",
        "tracing",
        "tracing-header",
        "verbose",
        "version",
        "yes",
    }
)
"""Likewise. Some of them make Pulumi write its whole memory, its requests with all secrets, or a state that it has not checked."""
_RESERVED: Mapping[str, Mapping[str, frozenset[str]]] = {"tofu": _HCL_STEPS, "terraform": _HCL_STEPS, "pulumi": {}}
_RESERVED_EVERYWHERE = {"tofu": _HCL, "terraform": _HCL, "pulumi": _PULUMI}
_HCL_NEEDS_VALUE = frozenset(
    {
        "backend-config",
        "deprecation",
        "exclude",
        "exclude-file",
        "lock-timeout",
        "lockfile",
        "parallelism",
        "plugin-dir",
        "replace",
        "target",
        "target-file",
        "test-directory",
        "var",
        "var-file",
    }
)
"""Without a value of its own, such a flag would take the next argument, which may be the plan to apply."""
_PULUMI_NEEDS_VALUE = frozenset(
    {"exclude", "message", "parallel", "policy-pack", "policy-pack-config", "replace", "target", "target-replace"}
)
"""Likewise: the next argument may be the one that makes a destroy only a preview."""
_NEEDS_VALUE = {"tofu": _HCL_NEEDS_VALUE, "terraform": _HCL_NEEDS_VALUE, "pulumi": _PULUMI_NEEDS_VALUE}

BACKEND_FLAG = "backend-config"
"""Replaces parts of the address of a state, so it is only for modules that keep their state elsewhere."""


def check(engine: str, step: str, flags: Sequence[str]) -> None:
    """Raise Invalid for an argument that is not one flag, or that Terracrew sets or relies on."""
    if len(flags) > MAX_FLAGS:
        raise Invalid(f"at most {MAX_FLAGS} flags can be added to a step, and there are {len(flags)}")
    for flag in flags:
        if len(flag) > MAX_FLAG_CHARACTERS or "\0" in flag or not _SHAPE.fullmatch(flag):
            raise Invalid(
                f"{flag[:80]!r} is not a flag of at most {MAX_FLAG_CHARACTERS} characters: write `-name` or `-name=value`, "
                "each as one item of the list"
            )
        name = name_of(flag)
        if engine == "pulumi" and not flag.startswith("--"):  # several short flags, and their values, may be one word
            raise Invalid(f"{flag[:80]!r} is a short flag: pulumi accepts every flag in its long form, `--name`")
        dashes = "--" if engine == "pulumi" else "-"
        if engine in _RESERVED and name in _RESERVED[engine].get(step, frozenset()) | _RESERVED_EVERYWHERE[engine]:
            raise Invalid(
                f"`{dashes}{name}` cannot be added to {step} of {engine}, because Terracrew decides about it itself"
            )
        if name in _NEEDS_VALUE.get(engine, ()) and "=" not in flag:
            raise Invalid(f"`{dashes}{name}` needs a value: write `{dashes}{name}=VALUE` as one item of the list")


def name_of(flag: str) -> str:
    return flag.lstrip("-").partition("=")[0]


_PREFIX = "TF_CLI_ARGS"
WORKSPACE = "TF_WORKSPACE"
_STEPS = ("init", "validate", "plan", "apply", "output")
"""The commands that read TF_CLI_ARGS; one variable more for each of them adds arguments to this command only."""
_QUOTED = re.compile(r"""'[^']*'|"[^"\\]*\"""")
_SPECIAL = re.compile(r"[\\`$;&|<>()]")
"""What the parser of the engines (go-shellwords) reads in another way than `shlex`, unless it is between quotes."""


def check_environment(environment: Mapping[str, str], *, has_our_backend: bool = False) -> None:
    """Raise Invalid for a variable by which OpenTofu or Terraform would read an argument that Terracrew decides about."""
    for name, text in environment.items():
        if name == _PREFIX or name.startswith(f"{_PREFIX}_"):
            _check(name, text, has_our_backend=has_our_backend)


def check_workspace(environment: Mapping[str, str]) -> None:
    """Raise Invalid if the variables choose a workspace. For modules whose state Terracrew holds: that has no workspaces."""
    chosen = environment.get(WORKSPACE, "")
    if chosen not in ("", "default"):
        raise Invalid(
            f"environment: {WORKSPACE} is `{chosen[:100]}`, but Terracrew holds the state of this module, and its states have no "
            "workspaces: create a module for each workspace, with a variable in place of `terraform.workspace`, or keep the state "
            "in the backend that the source configures (`--own-backend`)",
            field=WORKSPACE,
        )


def _check(name: str, text: str, *, has_our_backend: bool) -> None:
    if special := _SPECIAL.search(_QUOTED.sub("", text)):
        raise Invalid(
            f"environment: {name} has the character {special[0]} outside of quotes, which engines read as part of a command: put "
            "the value between single quotes, or set a variable of the module instead",
            field=name,
        )
    steps = _STEPS if name == _PREFIX else (name.removeprefix(f"{_PREFIX}_"),)
    try:
        arguments = shlex.split(text)
        for step in steps:
            check("tofu", step, arguments)
    except ValueError as error:
        raise Invalid(f"environment: {name} is not a list of arguments: {error}", field=name) from None
    except Invalid as error:
        raise Invalid(f"environment: {name}: {error.message}", field=name) from None
    if has_our_backend and any(name_of(each) == BACKEND_FLAG for each in arguments):
        raise Invalid(
            f"environment: {name}: `-{BACKEND_FLAG}` cannot be added, because Terracrew keeps the state of this module",
            field=name,
        )
