"""The settings of the dispatcher `kubernetes`: `job_dispatcher.data`, or variables TERRACREW_JOB_DISPATCHER_DATA_<NAME>."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.runner.dispatch.containers import values
from terracrew.runner.dispatch.containers.values import SettingsReader
from terracrew.runner.dispatch.kubernetes import pod_template

AuthType = Literal["in_cluster", "kubeconfig", "eks_iam"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")
_EKS_CLUSTER = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)")
_MEMORY_SUFFIXES = {
    "": "",
    **dict.fromkeys(("kb", "ki", "kib"), "Ki"),
    **dict.fromkeys(("mb", "mi", "mib"), "Mi"),
    **dict.fromkeys(("gb", "gi", "gib"), "Gi"),
    **dict.fromkeys(("tb", "ti", "tib"), "Ti"),
    "k": "k",
    "m": "M",
    "g": "G",
    "t": "T",
}
_CPU = re.compile(r"\d+m|\d+(\.\d{1,3})?")


class KubernetesSettings(msgspec.Struct, frozen=True):
    image: str
    auth_type: AuthType | None = None
    """None: `in_cluster` in a pod, and `kubeconfig` elsewhere."""
    namespace: str = "default"
    kubeconfig: str = ""
    """The path of the file. Empty means `KUBECONFIG`, or `~/.kube/config`."""
    context: str = ""
    region: str = ""
    eks_cluster: str = ""
    memory_request: str = ""
    memory_limit: str = ""
    cpu_request: str = ""
    cpu_limit: str = ""
    service_account: str = ""
    """The service account of the pods. Empty means that no token of one is in them."""
    image_pull_secrets: list[str] = []
    image_pull_policy: PullPolicy | Literal[""] = ""
    pod_template: Mapping[str, Any] = {}
    """What the file POD_TEMPLATE holds: a pod that Terracrew's own is merged over."""
    environment: list[str] = []
    """The names of the runner's own variables that engines get; `*` stands for any characters."""
    engines: dict[str, list[str]] = {}
    """The engines of the image, each with its versions; empty means that the image is asked."""
    start_seconds: float = 900.0
    """How long a pod may wait for a node, for its image or for room in a quota."""


def with_choice(chosen: KubernetesSettings, choice: DispatcherChoice) -> KubernetesSettings:
    """Return the settings for a job that asks for more than a dispatcher. The allow-list has been checked."""
    changes: dict[str, str] = {}
    if choice.memory_mb is not None:
        changes |= dict.fromkeys(("memory_request", "memory_limit"), f"{choice.memory_mb}Mi")
    if choice.cpu is not None:
        changes |= dict.fromkeys(("cpu_request", "cpu_limit"), f"{round(choice.cpu * 1000)}m")
    if choice.image is not None:
        changes["image"] = choice.image
    if choice.service_account is not None:
        changes["service_account"] = choice.service_account
    return msgspec.structs.replace(chosen, **changes)


def _check(data: Mapping[str, str], _found: Mapping[str, Any]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    if "image" not in data:
        wrong["image"] = "the dispatcher `kubernetes` needs the image of executors"
    kind = data.get("auth_type")
    if kind == "eks_iam":
        for name, what in (("region", "the region of the cluster"), ("eks_cluster", "the name of the cluster")):
            if name not in data:
                wrong[name] = f"AUTH_TYPE=eks_iam needs {what}"
        unused = [name for name in ("kubeconfig", "context") if name in data]
    else:
        unused = [name for name in ("region", "eks_cluster") if name in data]
        unused += [name for name in ("kubeconfig", "context") if name in data] if kind == "in_cluster" else []
    for name in unused:
        only = "kubeconfig" if name in ("kubeconfig", "context") else "eks_iam"
        wrong.setdefault(name, f"it is used only with AUTH_TYPE={only}")
    return wrong


def memory(text: str) -> str:
    """Return a quantity of Kubernetes from text such as `42 MB`, `512Mi` or `1.5 GiB`. `MB` is a power of 1024, as for `docker`."""
    parts = _MEMORY.fullmatch(text.strip())
    if parts is None or parts[2].lower() not in _MEMORY_SUFFIXES:
        raise ValueError(f"{text!r} is not an amount of memory such as `512 MB` or `2Gi`")
    return parts[1] + _MEMORY_SUFFIXES[parts[2].lower()]


def _cpu(text: str) -> str:
    if _CPU.fullmatch(text.strip()) is None or float(text.strip().rstrip("m")) == 0:
        raise ValueError(f"{text!r} is not a number of processors such as `1.5` or `500m`")
    return text.strip()


def _template(text: str) -> Mapping[str, Any]:
    return pod_template.read(Path(values.text(text)))


_PARSERS: dict[str, Callable[[str], Any]] = {
    "auth_type": values.one_of(get_args(AuthType)),
    "image": values.image,
    "namespace": values.matching("the name of a namespace", _NAME),
    "kubeconfig": values.text,
    "context": values.text,
    "region": values.matching("a region of AWS such as `eu-central-1`", _REGION),
    "eks_cluster": values.matching("the name of an EKS cluster", _EKS_CLUSTER),
    "memory_request": memory,
    "memory_limit": memory,
    "cpu_request": _cpu,
    "cpu_limit": _cpu,
    "service_account": values.matching("the name of a service account", _SUBDOMAIN),
    "image_pull_secrets": values.words("the name of a secret", _SUBDOMAIN),
    "image_pull_policy": values.one_of(get_args(PullPolicy)),
    "pod_template": _template,
    "environment": values.variables,
    "engines": values.engines,
    "start_seconds": values.seconds,
}
_READER = SettingsReader("kubernetes", KubernetesSettings, _PARSERS, _check)
parse, problems = _READER.parse, _READER.problems
