"""What a deployment makes, one file for each kind of thing: `ensure` finds or makes it, `remove` removes it.

Everything is made together with its tags in one request, so that a process which is killed leaves nothing that is not found again.
"""
