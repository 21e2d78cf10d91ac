"""Commands for the people and programs that use the server: who they are, what they may do, and what they have done."""
