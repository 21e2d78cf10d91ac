"""Notices that the machine of this runner goes away, from what runs the machine."""
