"""One attempt of one job, as the runner, the executor and the server know it: its directory, its process, its result."""
