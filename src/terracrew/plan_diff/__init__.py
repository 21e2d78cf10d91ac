"""The plan as people read it: what becomes of each resource, by attribute. It is the same for every engine.

An executor makes it from what its engine says about a plan, with sensitive values left out, because it never sends those. The
server stores it with the job; page, terminal and API show parts of it.
"""
