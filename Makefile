# Everything a developer does here. Each target sets up .venv by itself if need be; once set up, no target needs the network but
# `install-check` and `lowest`.
# Plain POSIX sh and GNU make 3.81, so that it runs as it is on Linux, in containers and on macOS.

VENV := .venv
PY := $(VENV)/bin/python
# Where test results and coverage data are written.
BUILD := .build
COVERAGE_DATA := $(BUILD)/coverage/data
# `make test COVERAGE=1` keeps coverage data for `make coverage`, and takes about twice as long.
COVERAGE ?=
# An environment with the agent frameworks of config/examples.
EXAMPLES := $(BUILD)/examples
# How many tests run at a time.
JOBS ?= 2
# Options for `make serve`, such as ARGS='--config config/sidecar.yaml'.
ARGS ?=
# A stamp says which extras .venv holds. [dev] holds those of [sidecar] too, so it sets both.
SIDECAR := $(VENV)/.has-sidecar
DEV := $(VENV)/.has-dev
FUZZ := $(VENV)/.has-fuzz
# Parts for `make bench`, all by default: ONLY=sidecar
ONLY ?=
# What `make lowest` runs, within three minutes: for each dependency the tests at the edge that touches it, and all of the in-process form.
TESTS ?= tests/inprocess \
  $(patsubst %,tests/exporters/test_%.py,emitters events exemplars metrics_export otlp telemetry) \
  $(patsubst %,tests/exporters/forward/test_%.py,clients client_tls) \
  $(patsubst %,tests/settings/test_%.py,config_model schema service types types_of_settings yaml_tree) \
  $(patsubst %,tests/receivers/test_%.py,grpc_calls otlp_grpc otlp_http tls) \
  $(patsubst %,tests/sidecar/status/test_%.py,site) \
  $(patsubst %,tests/otlp/test_%.py,protobuf_traces response_decoding schema) \
  tests/test_in_process_and_sidecar.py
# How long `make fuzz` tries each target.
SECONDS ?= 60

# The pure core has every branch covered by its own tests; the values that all rooms share, by any; all code together, this share in percent.
CORE := engine/binding engine/buffer engine/evaluation evaluators extraction model/payload otlp
CORE_VALUES := model
WHOLE_PERCENT := 95

.DEFAULT_GOAL := help

.PHONY: help demo test slow e2e browser check bench serve lint types architecture readme install-check dashboards pictures examples coverage lowest fuzz clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(SIDECAR) ## watch a sample agent being judged, from its spans to the table of scores
	@$(PY) -m otel_toolcall_eval demo

serve: $(SIDECAR) ## run the sidecar on this machine: make serve ARGS='--config config/sidecar.yaml'
	@$(PY) -m otel_toolcall_eval serve $(ARGS)

test: $(DEV) ## run the tests that take less than two seconds each, which is nearly all of them (some minutes)
	@rm -rf $(BUILD)/coverage && mkdir -p $(BUILD)/coverage
	@COVERAGE_FILE=$(COVERAGE_DATA) $(PY) -m pytest -q -n $(JOBS) $(if $(COVERAGE),--cov --cov-context=test --cov-report=) --junit-xml=$(BUILD)/tests.xml

slow: $(DEV) ## run the tests that take longer: the largest traces, restarts and kills of sidecars, memory over time (some minutes)
	@$(PY) -m pytest -q -n $(JOBS) -m slow --junit-xml=$(BUILD)/slow.xml

browser: $(DEV) ## install a Chromium for `make e2e` unless there is one (as root, where there is apt-get)
	@$(PY) -m tests.e2e.chromium

e2e: $(DEV) ## run real senders, the Collector, Prometheus and a browser with what we emit (needs go, node, npm, Chromium; at first some minutes)
	@$(PY) -m tests.e2e.toolchain
	@$(PY) -m pytest -q -n $(JOBS) -m e2e --junit-xml=$(BUILD)/e2e.xml tests/e2e

# The data are set aside once they have been read, so that a later run never reports on old ones.
coverage: $(DEV) ## check the coverage of `make test COVERAGE=1`, which is run first unless it has just been
	@[ -f $(COVERAGE_DATA) ] || $(MAKE) --no-print-directory test COVERAGE=1
	@mv $(COVERAGE_DATA) $(COVERAGE_DATA).read
	@failed=''; \
	report() { COVERAGE_FILE=$(COVERAGE_DATA).read $(PY) -m coverage report "$$@"; }; \
	room() { name=$$1; shift; \
	  missing=$$(report --fail-under=100 --include="otel_toolcall_eval/$$name/*,otel_toolcall_eval/$$name.py" "$$@") \
	  || { echo "$$name, of the core:"; echo "$$missing"; failed="$$failed $$name"; }; }; \
	report --fail-under=$(WHOLE_PERCENT) || failed=' all'; \
	for name in $(CORE); do room "$$name" --contexts="^$$,^tests/$$name/,^tests/$${name%/*}/test_$${name##*/}"; done; \
	for name in $(CORE_VALUES); do room "$$name"; done; \
	if [ -n "$$failed" ]; then \
	  echo "coverage: too little in$$failed; all code needs $(WHOLE_PERCENT) %, the core every branch, from the tests of its own room alone" >&2; exit 1; fi; \
	echo "coverage: $(WHOLE_PERCENT) % and more of all code, every branch of the core from its own tests"

check: lint types architecture readme install-check ## all checks but the tests: style, types, rooms, README, a fresh install

lint: $(DEV) ## style and format of code, YAML and Dockerfile
	@$(PY) -m ruff check --quiet
	@$(PY) -m ruff format --check --quiet
	@$(PY) -m yamllint --strict .
	@if [ -x $(VENV)/bin/hadolint ]; then $(VENV)/bin/hadolint Dockerfile; else echo "lint: no hadolint for this machine; Dockerfile is held by its tests only"; fi

types: $(DEV) ## types, strictly
	@$(PY) -m mypy

architecture: $(DEV) ## which room may import which, and what the core may not touch
	@$(PY) -m pytest -q tests/test_architecture.py

readme: $(DEV) ## run the examples in README.md
	@$(PY) -m pytest -q -m "slow or not slow" tests/test_readme.py

install-check: $(DEV) ## build the wheel, install it into empty environments, look for known vulnerabilities (needs a package registry)
	@$(PY) -m pytest -q -m install tests/test_packaging.py tests/test_image.py

dashboards: $(DEV) ## write config/grafana/dashboards anew from their code in config/grafana/boards
	@PYTHONPATH=config/grafana $(PY) -m boards

pictures: $(DEV) ## draw the pictures of the dashboards anew (needs go and its registry, for Prometheus)
	@$(PY) -m tests.e2e.toolchain
	@$(PY) -m tests.e2e.pictures

examples: $(DEV) $(EXAMPLES)/.ready ## run the agents of config/examples, each in its framework (the first time needs a package registry)
	@$(PY) -m pytest -q -m examples tests/examples tests/inprocess/test_instrumentor.py

# The lowest google-re2 has no wheel for Python 3.13. Nothing is compiled beforehand: that would take longer than the tests of some rooms.
lowest: $(DEV) ## run the tests of what touches a dependency (or TESTS=...) with the lowest versions that pyproject.toml allows (needs a package registry)
	@set -e; \
	if $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then \
	  echo "lowest: left out, since not all of the lowest versions have wheels for this Python; it takes 3.11 or 3.12"; \
	else \
	  rm -rf $(BUILD)/lowest && mkdir -p $(BUILD) && $(PY) -c '$(LOWEST)' >$(BUILD)/lowest.txt; \
	  $(PY) -m venv $(BUILD)/lowest; \
	  $(BUILD)/lowest/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint $(BUILD)/lowest.txt --editable '.[test]'; \
	  $(BUILD)/lowest/bin/python -m pytest -q -n $(JOBS) --junit-xml=$(BUILD)/lowest.xml $(TESTS); \
	fi

bench: $(DEV) ## measure beside yardsticks; prints a table, asserts no times: make bench ONLY='sidecar wire' (needs go for the Collector)
	@$(PY) -m tests.bench $(ONLY)

fuzz: $(FUZZ) ## try the decoders and the reading of criteria with made-up input, SECONDS=60 each
	@nice $(PY) -m tests.fuzz --seconds $(SECONDS) --jobs $(JOBS) --folder $(BUILD)/fuzz

clean: ## remove what the targets made, but for .venv
	rm -rf $(BUILD) build dist .coverage .coverage.* .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache

$(DEV): pyproject.toml
	@$(call install,dev)
	@touch $(SIDECAR) $@

# atheris is apart: it has wheels for some machines only. Where there is none, the targets run without it and say so.
$(FUZZ): pyproject.toml $(DEV)
	@$(call install,fuzz)
	@touch $@

$(EXAMPLES)/.ready: pyproject.toml
	@echo "Setting up $(EXAMPLES) with the agent frameworks, once; about two minutes ..."
	@rm -rf $(EXAMPLES) && mkdir -p $(BUILD) && $(PY) -m venv $(EXAMPLES)
	@$(EXAMPLES)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[examples]'
	@touch $@

$(SIDECAR): pyproject.toml
	@$(call install,sidecar)
	@touch $@

# Prints a constraint such as pydantic==2.9 for each dependency that users get.
define LOWEST
import re, tomllib; \
project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
extras = project["optional-dependencies"]; \
wanted = project["dependencies"] + extras["auto"] + extras["cli"] + extras["patterns"] + extras["pytest"] + extras["sidecar"]; \
print(*(re.sub(">=([^,]+),.*", r"==\1", one) for one in wanted if ">=" in one), sep="\n")
endef

# $(call install,EXTRA): make .venv with the first Python that will do, unless there is one, and install the package in place.
# Each candidate is tried out, since a name on the PATH may be an old version, or a shim without a version behind it.
SUITABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
define install
set -e; \
if ! $(PY) -c '$(SUITABLE)' 2>/dev/null; then \
  found=''; \
  for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
    if "$$candidate" -c '$(SUITABLE)' >/dev/null 2>&1; then found="$$candidate"; break; fi; \
  done; \
  if [ -z "$$found" ]; then \
    echo "make: no Python 3.11 or newer with venv among python3, python3.14, python3.13, python3.12, python3.11;" >&2; \
    echo "      install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3" >&2; \
    exit 1; \
  fi; \
  echo "Setting up $(VENV) with $$("$$found" --version), once; about a minute ..."; \
  "$$found" -m venv --clear $(VENV); \
else \
  echo "Bringing $(VENV) up to date ..."; \
fi; \
$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[$(1)]'
endef
