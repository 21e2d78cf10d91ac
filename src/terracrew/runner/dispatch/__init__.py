"""Starts executors and finds them again. `protocol` is the interface; `local` uses processes on this machine, `docker`
containers, and `ecs` tasks of Amazon ECS."""
