"""Gets engines onto this machine: finds installed ones, downloads releases, builds from source, and caches the results."""
