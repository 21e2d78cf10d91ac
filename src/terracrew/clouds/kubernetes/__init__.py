"""Runners as pods of a Kubernetes cluster, behind the contract of a cloud."""
