"""The tree over HTTP: groups, modules and what they store, and runners."""
