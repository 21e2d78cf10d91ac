"""The optional file of a pod that Terracrew's own is merged over: where pods run, what they are marked with, what they may use."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

MAX_TEMPLATE_BYTES = 256 * 1024
EXECUTOR = "executor"
"""The name of the container that runs the attempt. A template may have settings for it under this name."""
_SECTIONS = ("metadata", "spec", "apiVersion", "kind")
_OWN_FIELDS = ("restartPolicy", "activeDeadlineSeconds", "automountServiceAccountToken", "serviceAccountName")
_OWN_CONTAINER_FIELDS = ("image", "command", "args", "workingDir", "terminationMessagePath", "lifecycle")
_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), "name"),
    "volumeMounts": "mountPath",
}
"""Lists whose entries are merged by a key. Others are replaced."""


def read(path: Path) -> Mapping[str, Any]:
    """Return the template. Raises ValueError with what is wrong."""
    import yaml  # a runner without a template does not need it

    try:
        with path.open("rb") as file:
            content = file.read(MAX_TEMPLATE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(content) > MAX_TEMPLATE_BYTES:
        raise ValueError(f"{str(path)!r} has more than {MAX_TEMPLATE_BYTES >> 10} KiB")
    try:
        document = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"{str(path)!r} is not YAML{f': line {mark.line + 1}' if mark else ''}") from None
    template = cast("dict[str, Any]", document)
    if not isinstance(document, dict) or not all(
        isinstance(template.get(name), dict) for name in ("metadata", "spec") if name in template
    ):
        raise ValueError(f"{str(path)!r} is not a pod template: an object with `metadata` and `spec`")
    if unknown := sorted(str(name) for name in template if name not in _SECTIONS):
        raise ValueError(f"{str(path)!r} has {unknown[0]!r}; a pod template has `metadata` and `spec`")
    _check(path, template)
    return template


def _check(path: Path, template: Mapping[str, Any]) -> None:
    spec: dict[str, Any] = template.get("spec") or {}
    for name in _OWN_FIELDS:
        if name in spec:
            raise ValueError(f"{str(path)!r} sets spec.{name}, which Terracrew sets")
    for container in _containers(spec):
        own = [name for name in _OWN_CONTAINER_FIELDS if name in container]
        if container.get("name") == EXECUTOR and own:
            raise ValueError(f"{str(path)!r} sets {own[0]} of the container {EXECUTOR}, which Terracrew sets")
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or grace < 1):
        raise ValueError(f"{str(path)!r}: spec.terminationGracePeriodSeconds is not a number of seconds")


def _containers(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    given: Any = spec.get("containers")
    if not isinstance(given, list):
        return []
    return [cast("dict[str, Any]", each) for each in cast("list[Any]", given) if isinstance(each, dict)]


def merged(template: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with our own pod over it: objects by field, lists of named entries by name, and ours wins."""
    return cast("dict[str, Any]", _merge(copy.deepcopy(dict(template)), own, ""))


def _merge(below: Any, over: Any, field: str) -> Any:
    if isinstance(below, dict) and isinstance(over, Mapping):
        result = cast("dict[str, Any]", below)
        for name, value in cast("Mapping[str, Any]", over).items():
            result[name] = _merge(result.get(name), value, name)
        return result
    if isinstance(below, list) and isinstance(over, list) and field in _KEYS:
        return _merge_list(cast("list[Any]", below), cast("list[Any]", over), _KEYS[field])
    return cast("Any", over)


def _merge_list(below: list[Any], over: list[Any], key: str) -> list[Any]:
    ours: dict[Any, Any] = {each[key]: each for each in over}
    result = list[Any]()
    for each in below:
        name = cast("dict[str, Any]", each).get(key) if isinstance(each, dict) else None
        result.append(_merge(each, ours.pop(name), "") if name in ours else each)
    return [*result, *ours.values()]
