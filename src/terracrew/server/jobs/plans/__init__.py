"""Plans of jobs that wait for a person: their rows, what is decided about them, and which plans a person must look at."""
