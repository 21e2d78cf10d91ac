"""The server: keeps the tree and the jobs, and decides which runner gets which. ARCHITECTURE.md lists its layers."""
