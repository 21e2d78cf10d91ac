"""Updates of self-hosted runners that update themselves: one fleet job for each runner, and one row for each of its instances."""
