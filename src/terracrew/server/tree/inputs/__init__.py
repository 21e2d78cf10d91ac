"""Inputs at any place of the tree: what the jobs of modules are given, from where, and who set it."""
