"""Executors that are processes of the runner's machine, forked from the zygote."""
