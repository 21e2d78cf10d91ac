"""What a place of the tree adds to the steps of the jobs below it: hooks, and flags of the engine."""
