"""Speaks to the API server of a Kubernetes cluster, for the dispatcher of runners and for cloud-hosted runners."""
