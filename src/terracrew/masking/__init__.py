"""Finds secrets by the names they are given, and masks them in text that people read. Executor and server share it."""
