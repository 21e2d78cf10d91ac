# Each target sets up all that it needs: Python 3.11, git and make are enough to begin with.
#   make demo      a whole Terracrew at work on sample modules   (EXIT=1: stop after the jobs; PORT=…; FRESH=1)
#   make test      every test of the default tier                (ARGS="-k name": some of them; WORKERS=0: one after the other)
#                  A test that fails is repeated once, alone: the end lists those that passed then.
#   make test-user  the same tests on a bare environment, as an ordinary user that root makes (.ci/run)
#   make test-thorough  the same tests with twice as many random examples, as before a release
#   make test-engines   the tests of the engines beside OpenTofu, which it installs first (minutes, once)
#   make test-platforms   the tests with Docker and others, which it installs and starts   (PLATFORMS=docker: some of them)
#   make images    the images of server, executor and runner, with their bills of materials (ARGS="--base …": see --help)
#   make release   packages, images, checksums and signatures, into build/release (RELEASE_KEY_FILE=…; docs/releasing.md)
#   make check     format, lint, types, imports; of the provider, gofmt and go vet
#   make settings  the pages and schemas of settings in docs/
#   make docs      the documentation as a site, into build/site
#   make provider  the provider for OpenTofu and Terraform, into build/provider (docs/provider.md)
#   make provider-fields  what the provider takes from the API, provider/fields.go
#   make provider-docs    the pages of its resources, docs/provider
#   make picture   the picture of the README, docs/dashboard.png, by the test of approvals in a browser
#   make features  what the tests prove, clause by clause
#   make explore   every order of events, further than the tests (ARGS="3 2": attempts, faults; ARGS=longest: hours)
#   make bench     the figures, into build/bench.json            (ARGS=…)
#   make powercut  a power cut after every sync of a small site  (ARGS="--disk ext4 --every 5")
#   make chaos     ten minutes of faults against real processes  (ARGS="--database sqlite --seed 2 --minutes 3")
#   make day       24 hours of simulated time through the lease  (ARGS="--database postgres --seed 2")

PYTHON := .venv/bin/python
SETUP := pyproject.toml uv.lock scripts/bootstrap
# Two more than there are cores: many tests wait for real time to pass.
WORKERS ?= $(shell expr $$(nproc) + 2)

# The tests start hundreds of processes: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo images kept release test test-user test-thorough test-engines test-platforms check lint format types imports go settings docs provider provider-fields provider-docs picture features explore bench chaos day powercut

demo: .venv/.run
	@$(PYTHON) -m terracrew.cli demo $(if $(EXIT),--exit) $(if $(PORT),--port $(PORT)) $(if $(FRESH),--fresh)

images: .venv/.run
	@$(PYTHON) scripts/images.py $(ARGS)

kept: .venv/.dev
	@$(PYTHON) -m tests.released.kept $(VERSION)

release: .venv/.dev
	@$(PYTHON) scripts/release.py $(ARGS)

test: .venv/.dev
	@scripts/system-packages
	@$(PYTHON) -m terracrew.cli engine install tofu
	@$(PYTHON) -m terracrew.cli engine install opa
	@$(PYTHON) -m tests.machine.providers
	PYTHONPATH=scripts $(PYTHON) -m run_tests -p left_out -q -n $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder --durations=5 $(ARGS)

test-user:
	@.ci/run --user

test-thorough:
	@TERRACREW_TEST_THOROUGH=1 $(MAKE) --no-print-directory test

test-engines: .venv/.dev
	@$(PYTHON) -m tests.machine.engines
	@$(PYTHON) -m tests.machine.providers
	TERRACREW_TEST_ENGINES=all $(PYTHON) -m pytest -q -n $(WORKERS) --maxprocesses 8 --dist loadfile -m other_engine $(ARGS)

# Its tests share daemons and images, and each starts containers: two at a time are enough.
test-platforms: .venv/.dev
	@scripts/system-packages
	@scripts/platform-packages
	@scripts/bootstrap --all-groups --all-extras && touch .venv/.dev .venv/.run
	@$(PYTHON) -m terracrew.cli engine install tofu
	@$(PYTHON) -m tests.machine.providers
	@TERRACREW_TEST_PLATFORMS=$(or $(PLATFORMS),all) $(PYTHON) -m tests.machine.platforms
	TERRACREW_TEST_PLATFORMS=$(or $(PLATFORMS),all) PYTHONPATH=scripts $(PYTHON) -m pytest -p left_out -q -n 2 --dist loadfile --durations=5 -m platform $(ARGS)

check: .venv/.dev
	@$(MAKE) --no-print-directory --keep-going --output-sync --jobs=4 lint format types imports go

lint:
	$(PYTHON) -m ruff check .
format:
	$(PYTHON) -m ruff format --check .
types:
	$(PYTHON) -m basedpyright
imports:
	.venv/bin/lint-imports
go:
	@if command -v gofmt >/dev/null; then cd provider && test -z "$$(gofmt -l . | tee /dev/stderr)" && go vet .; \
	  else echo "no Go here: the provider is not checked"; fi

settings: .venv/.dev
	@for process in server runner; do \
	  $(PYTHON) scripts/$${process}_settings.py > docs/$$process-settings.md && \
	  $(PYTHON) -m terracrew.cli $$process schema > docs/$$process.schema.json || exit 1; done

docs: .venv/.dev
	@$(PYTHON) scripts/build_site.py build/site && echo "build/site/index.html"

provider: .venv/.run
	@$(PYTHON) scripts/provider.py

provider-fields: .venv/.dev
	@$(PYTHON) scripts/provider_fields.py provider/fields.go

provider-docs: provider
	@$(PYTHON) scripts/provider_docs.py

picture: .venv/.dev
	@scripts/system-packages
	PICTURE=docs/dashboard.png $(PYTHON) -m pytest -q -n 0 tests/server/dashboard/browser/test_approvals.py -k "two_people and sqlite"

features: .venv/.dev
	@$(PYTHON) scripts/features.py

explore: .venv/.dev
	$(PYTHON) -m tests.explore $(ARGS)

bench: .venv/.dev
	$(PYTHON) -m tests.bench $(ARGS)

chaos: .venv/.dev
	$(PYTHON) -m tests.chaos $(ARGS)

day: .venv/.dev
	$(PYTHON) -m tests.chaos.day $(ARGS)
	TERRACREW_STATEFUL_EXAMPLES=100 $(PYTHON) -m pytest -q -s tests/stateful

powercut: .venv/.dev
	$(PYTHON) -m tests.powercut $(ARGS)

# What runs needs little, what tests needs more; the second leaves nothing to do for the first.
.venv/.run: $(SETUP)
	@test .venv/.dev -nt uv.lock || scripts/bootstrap --inexact --no-default-groups
	@touch $@

.venv/.dev: $(SETUP)
	@scripts/bootstrap --all-groups --extra postgres --extra docker
	@touch $@ .venv/.run
