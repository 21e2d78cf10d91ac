"""Helm, built from its Go module and kept in the cache, and the charts that it installs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from terracrew.toolchains import cache
from tests.deploy.containers import ROOT
from tests.machine.platforms import go_modules

CHARTS = ROOT / "deploy" / "helm"
VERSION = "v3.19.5"
_COMMAND_SECONDS = 120
_FLAGS = (
    f"-X helm.sh/helm/v3/internal/version.version={VERSION}"
    " -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34"
    " -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34"
)
"""As in a release: the version of Kubernetes that Helm assumes where it asks no cluster."""


def chart(name: str) -> Path:
    return CHARTS / f"terracrew-{name}"


def values(name: str) -> dict[str, Any]:
    return yaml.safe_load((chart(name) / "values.yaml").read_text())


class Helm:
    def __init__(self, kubeconfig: str, folder: Path) -> None:
        self._program, self._folder = _program(), folder
        self._environment = {
            "KUBECONFIG": kubeconfig,
            "HELM_CACHE_HOME": f"{folder}/helm-cache",
            "HELM_CONFIG_HOME": f"{folder}/helm-config",
            "HELM_DATA_HOME": f"{folder}/helm-data",
            "HOME": str(folder),
        }

    def run(self, *arguments: str, code: int = 0) -> str:
        """Return what Helm printed, standard error included if it failed as expected."""
        done = subprocess.run(
            [str(self._program), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"helm {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stdout + done.stderr

    def with_values(self, chosen: dict[str, Any]) -> str:
        file = self._folder / "values.json"
        file.write_text(json.dumps(chosen))
        return f"--values={file}"

    def rendered(self, name: str, chosen: dict[str, Any], *options: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the objects that a chart makes, by kind and name. The release is called `edge`."""
        text = self.run("template", "edge", str(chart(name)), self.with_values(chosen), "--namespace=crew", *options)
        found = [each for each in yaml.safe_load_all(text) if each]
        return {(each["kind"], each["metadata"]["name"]): each for each in found}

    def refused(self, name: str, chosen: dict[str, Any]) -> str:
        """Return why a chart refuses these values."""
        return self.run("template", "edge", str(chart(name)), self.with_values(chosen), code=1)

    def install(self, name: str, namespace: str, chosen: dict[str, Any]) -> str:
        """Install the release `edge` of a chart, or change it, and return its notes."""
        options = ("--install", f"--namespace={namespace}", self.with_values(chosen))
        return self.run("upgrade", "edge", str(chart(name)), *options)

    def uninstall(self, namespace: str) -> None:
        self.run("uninstall", "edge", f"--namespace={namespace}", "--ignore-not-found")


def _program() -> Path:
    path = cache.root() / "platforms" / f"helm-{VERSION}"
    with cache.locked("platforms-helm", lambda: None) as workplace:
        if not path.exists():
            source = go_modules.copied("helm.sh/helm/v3", VERSION, workplace / "source")
            go_modules.drop_replacements(source)
            made = go_modules.build(source, "./cmd/helm", workplace / "helm", _FLAGS)
            path.parent.mkdir(parents=True, exist_ok=True)
            made.replace(path)
    return path
