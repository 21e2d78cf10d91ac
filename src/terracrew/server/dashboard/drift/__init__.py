"""The pages of drift: all modules with drift, and one module with its addresses, mutes and checks."""
