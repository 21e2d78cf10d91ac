"""The runner: the process that claims jobs, starts an executor for each through a dispatcher, and reports how each attempt ended."""
