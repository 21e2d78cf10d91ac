"""Which runner gets which job, and why a queued job has no runner yet."""
