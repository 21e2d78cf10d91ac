"""Processes of Terracrew that start as forks of one process, which has imported everything once.

Importing takes a command one to two seconds of processor time, and the tests start hundreds of commands.
"""
