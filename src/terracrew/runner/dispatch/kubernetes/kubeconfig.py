"""Reads a kubeconfig: the cluster and the user of one context, with certificates, tokens and credential plug-ins."""

import asyncio
import base64
import binascii
import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from terracrew.errors import Invalid, ProgramFailed
from terracrew.kubernetes_api import access
from terracrew.kubernetes_api.access import AccessError, ClusterAccess, InCluster, TokenFile
from terracrew.runner.dispatch.containers import values
from terracrew.runner.dispatch.kubernetes.settings import KubernetesSettings
from terracrew.system import bounded_program
from terracrew.system.bounded_program import ProgramBounds

_PLUGIN_SECONDS = 60.0
_EARLY_SECONDS = 60.0
"""How long before its end a credential of a plug-in is replaced."""
_DEFAULT_LIFETIME_SECONDS = 600.0
"""How long a credential without an end is used."""


class Kubeconfig:
    def __init__(self, path: Path, context: str, environment: Mapping[str, str]) -> None:
        """Raises Invalid if the file has no such context, or if the context has no cluster and user that can be used."""
        self._path, self._environment = path, dict(environment)
        document = _load(path)
        chosen = context or str(document.get("current-context") or "")
        if not chosen:
            raise Invalid(f"{path} has no current-context: set CONTEXT")
        names = _named(document, "contexts", chosen, path).get("context")
        if not isinstance(names, dict):
            raise Invalid(f"the context {chosen!r} of {path} has no cluster")
        pair = cast("dict[str, Any]", names)
        self._cluster = _part(_named(document, "clusters", str(pair.get("cluster")), path), "cluster")
        self._user = _part(_named(document, "users", str(pair.get("user")), path), "user") if pair.get("user") else {}
        self.server = str(self._cluster.get("server") or "").rstrip("/")
        if not self.server.startswith(("https://", "http://")):
            raise Invalid(f"the cluster of the context {chosen!r} in {path} has no server with https://")
        if "proxy-url" in self._cluster:
            raise Invalid(f"{path} has a proxy-url, which is not used: set HTTPS_PROXY for the runner instead")
        if "auth-provider" in self._user:
            raise Invalid(f"{path} uses an auth-provider, which Kubernetes removed: use a credential plug-in (exec)")
        name = self._cluster.get("tls-server-name")
        self.certificate_name = str(name) if name else None
        file = self._user.get("tokenFile")
        self._file = TokenFile(self._beside(str(file))) if file else None
        self._plugin_headers: dict[str, str] | None = None
        self._plugin_until = 0.0
        self._asking = asyncio.Lock()
        self.tls()

    def tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=self._data("certificate-authority", self._cluster))
            if self._cluster.get("insecure-skip-tls-verify"):
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            certificate, key = (self._data(name, self._user) for name in ("client-certificate", "client-key"))
            if certificate and key:
                # The library reads a pair of keys only from files.
                with tempfile.NamedTemporaryFile("w") as pair:
                    pair.write(f"{certificate}\n{key}")
                    pair.flush()
                    context.load_cert_chain(pair.name)
        except (OSError, ValueError) as error:
            raise Invalid(f"the certificates of {self._path} cannot be used: {error}") from None
        return context

    async def headers(self) -> dict[str, str]:
        if token := self._user.get("token"):
            return {"Authorization": f"Bearer {token}"}
        if self._file:
            return await self._file.headers()
        if self._user.get("username"):
            pair = f"{self._user['username']}:{self._user.get('password') or ''}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        if isinstance(self._user.get("exec"), dict):
            async with self._asking:
                if self._plugin_headers is None or time.time() > self._plugin_until:
                    self._plugin_headers = await self._ask_plugin(self._user["exec"])
                return self._plugin_headers
        return {}

    def forget(self) -> None:
        self._plugin_headers = None
        if self._file:
            self._file.forget()

    async def _ask_plugin(self, plugin: Mapping[str, Any]) -> dict[str, str]:
        """Run a credential plug-in, whose only answer that can be used is a token."""
        command = str(plugin.get("command") or "")
        version = str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1")
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        given: list[dict[str, Any]] = plugin.get("env") or []
        env = {**self._environment, **{str(each["name"]): str(each["value"]) for each in given}}
        env["KUBERNETES_EXEC_INFO"] = json.dumps(info)
        arguments: list[Any] = plugin.get("args") or []
        program = str(self._path.parent / command) if "/" in command and not os.path.isabs(command) else command
        try:
            printed = await bounded_program.run(
                [program, *(str(each) for each in arguments)],
                purpose="the credential plug-in",
                bounds=ProgramBounds(_PLUGIN_SECONDS),
                environment=env,
            )
        except ProgramFailed as error:
            raise AccessError(error.message) from None
        try:
            status: dict[str, Any] = json.loads(printed)["status"]
            token = str(status["token"])
            end = status.get("expirationTimestamp")
            lasts = _seconds_of(str(end)) - _EARLY_SECONDS if end else time.time() + _DEFAULT_LIFETIME_SECONDS
        except (ValueError, KeyError, TypeError):
            raise AccessError(f"the credential plug-in {command} printed no token") from None
        self._plugin_until = lasts
        return {"Authorization": f"Bearer {token}"}

    def _data(self, name: str, part: Mapping[str, Any]) -> str | None:
        if encoded := part.get(f"{name}-data"):
            try:
                return base64.b64decode(str(encoded), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                raise ValueError(f"{name}-data is not base64") from None
        return self._beside(str(part[name])).read_text() if part.get(name) else None

    def _beside(self, name: str) -> Path:
        return self._path.parent / name


def _load(path: Path) -> dict[str, Any]:
    import yaml  # a runner in a pod has no such file

    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise Invalid(f"{path} is not YAML") from None
    if not isinstance(document, dict):
        raise Invalid(f"{path} is not a kubeconfig")
    return cast("dict[str, Any]", document)


def _named(document: Mapping[str, Any], kind: str, name: str, path: Path) -> dict[str, Any]:
    entries: Any = document.get(kind) or []
    for entry in entries:
        if isinstance(entry, dict) and cast("dict[str, Any]", entry).get("name") == name:
            return cast("dict[str, Any]", entry)
    raise Invalid(f"{path} has no entry {name!r} in {kind}")


def _part(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = entry.get(name)
    return cast("dict[str, Any]", part) if isinstance(part, dict) else {}


def _seconds_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def open_access(chosen: KubernetesSettings, environment: Mapping[str, str]) -> ClusterAccess:
    """Return the way to the API server. Raises Invalid with the name of the variable that is wrong."""
    kind = chosen.auth_type or ("in_cluster" if access.is_in_cluster() else "kubeconfig")
    try:
        if kind == "in_cluster":
            host, port = (environment.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
            return InCluster(host, port or "443")
        if kind == "eks_iam":
            from terracrew.runner.dispatch.kubernetes.eks import Eks

            return Eks(chosen.eks_cluster, chosen.region)
        return Kubeconfig(_kubeconfig_path(chosen, environment), chosen.context, environment)
    except Invalid as error:
        name = {"in_cluster": "AUTH_TYPE", "eks_iam": "AUTH_TYPE", "kubeconfig": "KUBECONFIG"}[kind]
        raise Invalid(f"{values.VARIABLE_PREFIX}{name}: {error.message}") from None


def _kubeconfig_path(chosen: KubernetesSettings, environment: Mapping[str, str]) -> Path:
    if chosen.kubeconfig:
        return Path(chosen.kubeconfig)
    listed = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    if len(listed) > 1:
        raise Invalid("the variable KUBECONFIG names several files: name one in KUBECONFIG of the dispatcher")
    return Path(listed[0]) if listed else Path(environment.get("HOME") or "/", ".kube", "config")
