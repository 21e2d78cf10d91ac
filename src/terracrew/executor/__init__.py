"""The executor: the process that runs one attempt of one job."""
