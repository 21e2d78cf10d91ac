"""The command lines of the processes of a cluster."""

import os

from tests.machine.platforms.kubernetes import programs
from tests.machine.platforms.kubernetes.places import Places

NODE = "node"
PUBLISH_ISSUER = (
    "create",
    "clusterrolebinding",
    "issuer-for-everybody",
    "--clusterrole=system:service-account-issuer-discovery",
    "--group=system:unauthenticated",
)
"""Everybody may read the issuer's keys, as the documentation of federation asks for."""


def environment() -> dict[str, str]:
    """The environment of this process without proxies, which do not lead to the cluster."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def kubectl(places: Places) -> list[str]:
    return [
        str(programs.folder() / "kubectl"),
        f"--kubeconfig={places.kubeconfig}",
        f"--cache-dir={places.data}/kubectl",
    ]


def all_of(places: Places) -> dict[str, list[str]]:
    data, binaries = places.data, programs.folder()
    clients, peers = f"http://{places.etcd}:2379", f"http://{places.etcd}:2380"
    etcd = [
        f"--data-dir={data}/etcd",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]
    apiserver = [
        f"--etcd-servers={clients}",
        f"--bind-address={places.address}",
        f"--advertise-address={places.address}",
        "--secure-port=443",
        f"--tls-cert-file={places.authority}",
        f"--tls-private-key-file={data}/tls.key",
        f"--service-account-key-file={places.signing_key}",
        f"--service-account-signing-key-file={places.signing_key}",
        f"--service-account-issuer={places.url}",
        f"--service-account-jwks-uri={places.url}/openid/v1/jwks",
        f"--token-auth-file={data}/tokens.csv",
        f"--authentication-config={places.issuers}",
        "--authorization-mode=RBAC",
        f"--service-cluster-ip-range={places.services}",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        # A node that is gone is noticed by tests within seconds, not minutes.
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
    ]
    controllers = [
        f"--kubeconfig={places.kubeconfig}",
        f"--service-account-private-key-file={places.signing_key}",
        f"--root-ca-file={places.authority}",
        "--leader-elect=false",
        "--secure-port=0",
        "--controllers=*,-node-ipam-controller,-node-route-controller,-service-lb-controller,-cloud-node-lifecycle-controller",
        "--node-monitor-grace-period=15s",
        "--node-monitor-period=1s",
        "--concurrent-job-syncs=20",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]
    scheduler = [f"--kubeconfig={places.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
    kubelet = [
        f"--kubeconfig={places.kubeconfig}",
        f"--config={data}/kubelet.json",
        f"--root-dir={data}/kubelet",
        f"--cert-dir={data}/kubelet-certificates",
        f"--hostname-override={NODE}",
        f"--node-ip={places.address}",
    ]
    return {
        "etcd": [str(binaries / "etcd"), *etcd],
        "kube-apiserver": [str(binaries / "kube-apiserver"), *apiserver],
        "kube-controller-manager": [str(binaries / "kube-controller-manager"), *controllers],
        "kube-scheduler": [str(binaries / "kube-scheduler"), *scheduler],
        "containerd": ["containerd", "--config", f"{data}/containerd.toml"],
        "kubelet": [str(binaries / "kubelet"), *kubelet],
    }
