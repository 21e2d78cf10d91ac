"""Which arguments people may add to the commands of an engine, and which would break what Terracrew does with it."""

import re
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
