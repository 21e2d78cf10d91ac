"""The environment of a hook. Nothing that is set below the place of a hook can make it do something else (`docs/hooks.md`)."""

import os
from collections.abc import Mapping

from terracrew.executor.steps import environment
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.spec import PlaceEnvironment, StepHook

_VARIABLE_PREFIX = "TF_VAR_"
"""Variables of the configuration. No program but the engine reads them, so they reach the hooks of all places."""
_HOME = "home"
_LOADING_NAMES = frozenset(
    (
        "AWS_CONFIG_FILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "BASH_ENV",
        "CDPATH",
        "CURL_HOME",
        "ENV",
        "GCONV_PATH",
        "GLOBIGNORE",
        "HOME",
        "IFS",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "KUBECONFIG",
        "LOCPATH",
        "OPENSSL_CONF",
        "OPENSSL_MODULES",
        "PATH",
        "PS4",
        "SHELLOPTS",
        "_JAVA_OPTIONS",
    )
)
_LOADING_PREFIXES = ("BASH_FUNC_", "GIT_", "LD_", "NODE_", "NPM_", "PERL", "PYTHON", "RUBY", "XDG_", "npm_")
"""Variables that make a shell, another interpreter, the loader or a common program run code or read settings from elsewhere."""


def of_hook(context: StepContext, wanted: StepHook) -> dict[str, str]:
    """Return the environment of a hook, without what only this run of it has."""
    runner, is_of_module = context.start.environment, wanted.place == context.spec.module_path
    env = context.env | context.cloud.environment() if is_of_module else _of_group(context, wanted.place)
    if context.start.approved_hooks is not None:
        env = approved(env, runner)
    elif is_of_module:
        return env
    # The working directory is the folder of the module, and Python would import from it.
    return {"PYTHONSAFEPATH": "1"} | env | (_home(context) if env.get("HOME") == runner.get("HOME") else {})


def approved(env: Mapping[str, str], runner: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a hook that the operator of the runner has approved: variables that load code are those of the runner,
    wherever others were set."""
    kept = {name: text for name, text in env.items() if not _is_loading(name)}
    return kept | {name: text for name, text in runner.items() if _is_loading(name)}


def _of_group(context: StepContext, path: str) -> dict[str, str]:
    given = next((each for each in context.spec.hook_environments if each.place == path), PlaceEnvironment(path))
    env = environment.of_place(context.start, context.granted, context.prepared.resolved, given, context.added_env)
    variables = {name: text for name, text in context.env.items() if name.startswith(_VARIABLE_PREFIX)}
    return variables | env | context.cloud.environment(given.variables)


def _home(context: StepContext) -> dict[str, str]:
    """Return an empty home directory that only the executor can write to, where the module can write to the usual one."""
    usual = context.start.environment.get("HOME", "")
    if not any(_is_in(usual, folder) for folder in context.start.isolation.write_paths):
        return {}
    folder = context.files.provided / _HOME
    folder.mkdir(mode=0o700, exist_ok=True)
    return {"HOME": str(folder)}


def _is_in(path: str, folder: str) -> bool:
    return os.path.isabs(path) and os.path.commonpath([path, folder]) == os.path.normpath(folder)


def _is_loading(name: str) -> bool:
    return name in _LOADING_NAMES or name.startswith(_LOADING_PREFIXES)
