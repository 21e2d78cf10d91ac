"""The fleet process: it makes the calls to clouds, and has no other right."""
