"""Runs the contract suites that are shipped for authors of plug-ins on the plug-ins of Terracrew itself."""
