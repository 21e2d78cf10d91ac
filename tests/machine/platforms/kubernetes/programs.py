"""The programs of Kubernetes, built from their Go modules and kept in the cache. A build takes about 15 minutes, once."""

from pathlib import Path

from terracrew.toolchains import cache
from tests.machine.platforms import go_modules

VERSION = "v1.34.2"
_LIBRARIES = "v0.34.2"
_ETCD = "v3.6.5"
_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")


def folder() -> Path:
    return cache.root() / "platforms" / f"kubernetes-{VERSION}"


def are_built() -> bool:
    return all((folder() / name).exists() for name in ("etcd", *_PROGRAMS))


def build() -> None:
    """Build what is missing."""
    with cache.locked("platforms-kubernetes", lambda: None) as workplace:
        if not are_built():
            cache.publish([_etcd(workplace), *_kubernetes(workplace)], folder())


def _kubernetes(workplace: Path) -> list[Path]:
    source = go_modules.copied("k8s.io/kubernetes", VERSION, workplace / "kubernetes")
    # Its libraries are folders of its repository, which its module does not contain. Each is a module of its own, too.
    wanted = [f"-require={library}@{_LIBRARIES}" for library in go_modules.drop_replacements(source)]
    go_modules.run(source, "mod", "edit", *wanted)
    flags = f"-X k8s.io/component-base/version.gitVersion={VERSION}"
    return [go_modules.build(source, f"./cmd/{name}", workplace / name, flags) for name in _PROGRAMS]


def _etcd(workplace: Path) -> Path:
    source = go_modules.copied("go.etcd.io/etcd/server/v3", _ETCD, workplace / "etcd-source")
    go_modules.drop_replacements(source)
    return go_modules.build(source, ".", workplace / "etcd")
