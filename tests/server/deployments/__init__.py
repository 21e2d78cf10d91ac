"""Tests of deployments and their instances."""
