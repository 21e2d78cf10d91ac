"""How results are printed, and how the terminal is protected from control sequences in them."""
