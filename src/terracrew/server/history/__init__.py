"""How a server notices that its database was set back, and what it holds until a person has looked (rule 10)."""
