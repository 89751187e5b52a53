# The vocabulary of the project; `make help` lists it. Everything is installed in .venv, nothing outside the checkout.

VENV := .venv
PYTHON := $(VENV)/bin/python
PYTEST_FLAGS ?= -n 2 --dist loadfile --max-worker-restart 0
PORT ?= 9092

# The pins also hold for what builds the package (older pips read the first name, newer ones the second).
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

.NOTPARALLEL:
.PHONY: help demo broker test lint format bench wheel-smoke clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '%-18s %s\n' "$$target" "$$text"; done

demo: $(VENV)/installed-plot ## private quantiles of taxi trips, with a plot
	$(VENV)/bin/ldp-stream demo

broker: $(VENV)/installed-kafka ## Apache Kafka on 127.0.0.1:9092 (PORT=...) until Ctrl-C, to try the service
	@exec $(PYTHON) -m tests.kafka_broker $(PORT)

test: $(VENV)/installed-test ## all tests and doctests
	$(PYTHON) -m pytest $(PYTEST_FLAGS)

lint: $(VENV)/installed-dev .mypy_path/ldp_stream/connectors ## ruff and mypy, changing nothing
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy

format: $(VENV)/installed-dev ## lay out the code and mend what ruff can
	$(VENV)/bin/ruff check --fix
	$(VENV)/bin/ruff format

bench: $(VENV)/installed-test ## time and memory beside what they are compared with
	$(PYTHON) -m tests.benchmarks.run

# The wheel is built from the source archive, so both are checked; only the base dependencies are installed beside it.
wheel-smoke: $(VENV)/installed-dev ## try the built wheel in a clean environment elsewhere
	@set -eu; place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; trap 'exit 1' INT TERM; \
	echo "building the wheel"; \
	$(PYTHON) -m build --outdir "$$place/dist" >"$$place/log" 2>&1 || { cat "$$place/log"; exit 1; }; \
	$(PYTHON) -m venv "$$place/venv"; \
	"$$place/venv/bin/python" -m pip install --quiet "$$place"/dist/*.whl; \
	cp tests/smoke_wheel.py "$$place"; cd "$$place"; venv/bin/python smoke_wheel.py

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) .mypy_path build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache bench.json demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A name on the PATH is not yet an interpreter, so each candidate is tried.
$(PYTHON):
	@for candidate in python3.13 python3.12 python3.11 python3; do \
		if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			echo "making $(VENV) with $$candidate"; \
			"$$candidate" -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }; \
			exit 0; \
		fi; \
	done; \
	echo "no Python 3.11 or newer with its venv module found: install python3 and python3-venv" >&2; exit 1

$(VENV)/installed-%: pyproject.toml setup.py constraints.txt | $(PYTHON)
	$(PYTHON) -m pip install --quiet --editable '.[$*]'
	@touch $@

.mypy_path/ldp_stream/connectors:
	@mkdir -p $(@D)
	@ln -s ../../connectors $@
