"""A Kubernetes of our own: a real control plane and one real node, started in seconds and thrown away afterwards.

`platforms.need("kubernetes")` returns the path of an administrator's kubeconfig, and `Cluster.of` takes it:

    cluster = Cluster.of(platforms.need("kubernetes"))
    image = cluster.executor_image()                   # marked with platform("docker", "kubernetes")
    with cluster.namespace() as namespace: ...

Several workers share this cluster. A test that stops a part of it, or replaces its keys, starts one of its own with
`own_cluster()`. What is different from a usual cluster:

- There is no kube-proxy, so no service has an address that works, except the API itself: 10.199.0.1 is an address of this
  machine, and the API server listens there. Pods find it with the variables that every pod has.
- There is no DNS in pods.
- A pod reaches a server of a test that listens on `cluster.address`, and this machine reaches the addresses of pods. A pod
  with `hostNetwork: true` reaches 127.0.0.1, too.
- Nothing enforces network policies, and nothing makes volumes: a test makes a persistent volume itself.
"""

from tests.machine.platforms.kubernetes.cluster import Cluster
from tests.machine.platforms.kubernetes.platform import Kubernetes, own_cluster

__all__ = ["Cluster", "Kubernetes", "own_cluster"]
