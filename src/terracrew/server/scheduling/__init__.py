"""Which runner is offered which job, and why a queued job has no runner yet."""
