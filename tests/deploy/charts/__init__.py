"""The charts of server and runner: their values, what Helm makes of them, and what a real cluster makes of that."""
