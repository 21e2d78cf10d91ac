"""Single sign-on: people log in by providers of their organization, and rules turn the claims that arrive into roles."""
