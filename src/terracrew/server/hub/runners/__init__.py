"""Connections of runners: a process connects as an instance, claims jobs and reports how their attempts ended."""
