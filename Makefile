# Each target sets up all that it needs: Python 3.11, git and make are enough to begin with.
#   make demo    a whole Terracrew at work on sample modules      (EXIT=1: stop after the jobs; PORT=…; FRESH=1)
#   make test    every test of the default tier                   (ARGS="-k name": some of them)
#   make check   format, lint, types, imports
#   make bench   the figures, into build/bench.json
#   make features  what the tests prove, item by item

PYTHON := .venv/bin/python
SETUP := pyproject.toml uv.lock scripts/bootstrap

.PHONY: demo test check bench features

demo: .venv/.run
	@$(PYTHON) -m terracrew.cli demo $(if $(EXIT),--exit) $(if $(PORT),--port $(PORT)) $(if $(FRESH),--fresh)

test: .venv/.dev
	@scripts/system-packages
	@$(PYTHON) -m terracrew.cli engine install tofu
	PYTHONPATH=scripts $(PYTHON) -m pytest -p left_out -q --durations=5 $(ARGS)

check: .venv/.dev
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m basedpyright
	.venv/bin/lint-imports

bench: .venv/.dev
	$(PYTHON) -m benchmarks $(ARGS)

features: .venv/.dev
	@$(PYTHON) scripts/features.py

# What runs needs little, what tests needs more; the second leaves nothing to do for the first.
.venv/.run: $(SETUP)
	@test .venv/.dev -nt uv.lock || scripts/bootstrap --inexact --no-default-groups
	@touch $@

.venv/.dev: $(SETUP)
	@scripts/bootstrap --all-groups --extra postgres
	@touch $@ .venv/.run
