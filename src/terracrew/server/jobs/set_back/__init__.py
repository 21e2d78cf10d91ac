"""What a server does when it learns that its database was set back: it holds every change until a person has looked (rule 10)."""
