"""What tests take from the machine that they run on: databases, a small disk, a cgroup, a browser."""
