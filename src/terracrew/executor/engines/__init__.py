"""Adapters of engines: what an executor has to know about a program such as OpenTofu in order to run it."""
