"""Writes the files that the processes of a cluster read: certificates, keys, settings, and the image of pods' first process."""

import hashlib
import io
import json
import secrets
import shutil
import tarfile
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from terracrew.toolchains import cache
from tests.machine import certificates
from tests.machine.platforms.kubernetes.places import Places

PAUSE_IMAGE = "docker.io/terracrew-test/pause:1"
_PAUSE = "#!/bin/sh\ntrap 'exit 0' TERM INT\nwhile :; do sleep 3600 & wait $!; done\n"
_RUNC = """#!/bin/sh
# A host without CAP_SYS_RESOURCE does not let a process lower its own oom_score_adj, which a kubelet asks for.
bundle=; previous=
for each in "$@"; do [ "$previous" = --bundle ] && bundle=$each; previous=$each; done
[ -n "$bundle" ] && [ -f "$bundle/config.json" ] && sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$bundle/config.json"
exec %s "$@"
"""
_CONTAINERD = """version = 2
root = "{data}/containerd"
state = "{data}/containerd-state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_hugetlb_controller = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{data}/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{data}/cni"
"""


def write(places: Places) -> None:
    """Write the files of a new cluster."""
    data = places.data
    certificates.certificate(data, places.address)
    write_signing_key(places.signing_key)
    places.issuers.parent.mkdir()
    write_issuers(places, [])
    token = secrets.token_hex(16)
    _write_secret(data / "tokens.csv", f"{token},administrator,1,system:masters\n")
    _write_secret(places.kubeconfig, json.dumps(_kubeconfig(places, token), indent=2))


def write_of_node(places: Places) -> None:
    """Write the files of a node."""
    data = places.data
    runc = data / "runc"
    runc.write_text(_RUNC % (shutil.which("runc") or "/usr/sbin/runc"))
    runc.chmod(0o755)
    (data / "cni").mkdir()
    ipam = {"type": "host-local", "subnet": places.pods, "dataDir": f"{data}/cni-addresses"}
    ipam["routes"] = [{"dst": "0.0.0.0/0"}]  # type: ignore[assignment]
    network = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}]}
    (data / "cni" / "10-pods.conflist").write_text(json.dumps(network))
    containerd = _CONTAINERD.format(data=data, socket=places.containerd, pause=PAUSE_IMAGE)
    (data / "containerd.toml").write_text(containerd)
    (data / "kubelet.json").write_text(json.dumps(_kubelet(places), indent=2))
    with (data / "pause.tar").open("wb") as file:
        _write_pause_image(file)


def read_issuers(places: Places) -> list[dict[str, Any]]:
    return json.loads(places.issuers.read_text())["jwt"]


def write_issuers(places: Places, issuers: list[dict[str, Any]]) -> None:
    document = {"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration", "jwt": issuers}
    new = places.issuers.with_suffix(".new")
    new.write_text(json.dumps(document))
    new.replace(places.issuers)


def write_signing_key(path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    _write_secret(path, text.decode())


def _kubeconfig(places: Places, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": places.url, "certificate-authority": str(places.authority)}}
        ],
        "users": [{"name": "administrator", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "administrator"}}],
        "current-context": "test",
    }


def _kubelet(places: Places) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": places.address,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{places.cgroup}",
        "containerRuntimeEndpoint": f"unix://{places.containerd}",
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "1Mi"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "healthzPort": 0,
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "maxOpenFiles": 20000,
        "nodeLeaseDurationSeconds": 12,
        "oomScoreAdj": 0,
        "podLogsDir": f"{places.data}/pod-logs",
        "readOnlyPort": 0,
        "registerWithTaints": [],
        "resolvConf": "",
        "serializeImagePulls": False,
        # Twenty starts at once are slowed down by nothing but the machine.
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    }


def _write_pause_image(file: io.BufferedWriter) -> None:
    """Write an image of one layer as `docker save` does: the process that holds the namespaces of a pod."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        program = tar.gettarinfo(shutil.which("busybox") or "/bin/busybox", "bin/busybox")
        with open(shutil.which("busybox") or "/bin/busybox", "rb") as source:
            tar.addfile(program, source)
        for name in ("sh", "sleep"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        _add(tar, "pause", _PAUSE.encode(), 0o755)
    text = layer.getvalue()
    config = json.dumps(
        {
            "architecture": cache.system()[1],
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(text).hexdigest()}"]},
        }
    ).encode()
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(fileobj=file, mode="w") as tar:
        _add(tar, name, config)
        _add(tar, "layer.tar", text)
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
