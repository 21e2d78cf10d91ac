"""The runner: the process that claims jobs, has an executor started for each, and reports what became of it."""
