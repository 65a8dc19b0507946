# Kvorum: `make run` starts a cluster, `make test` proves it; both set up what they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: run test test-long test-unit test-simulation test-mutants test-cluster test-console test-spark test-compiled check compiled \
	spark-jars chaos acceptance soak bench bench-curves generated compatibility docs lint-deploy clean

run: $(VENV)/.installed
	@$(BIN)/python -m kvorum.cli.main quickstart $(if $(FROM),--from "$(FROM)")

# Linux only: nodes need prctl, pidfd and /proc.
$(VENV)/.installed: pyproject.toml Makefile
	@test "$$(uname -s)" = Linux || { echo "Kvorum's nodes run on Linux only; this is $$(uname -s)" >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo "Kvorum needs python3 >= 3.11; it is not on the PATH" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Kvorum needs python3 >= 3.11; this one is {sys.version.split()[0]}")'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Kvorum needs the venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.tests: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.tests
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@mkdir -p build/types && ln -sfn ../.. build/types/kvorum
	@touch $@

# Units, simulation, mutants, clusters, console, Spark; what is marked `long` is left out. Nothing is compiled.
# SLICE=COMMIT: then a part of the long tests, chosen by the commit.
SLICE ?=
test: $(VENV)/.tests
	$(BIN)/python tools/run_tests.py --workers $(WORKERS) $(if $(SLICE),--slice $(SLICE))

# Every test, on the compiled modules where a step supports them.
test-long: $(VENV)/.tests compiled
	-command -v mvn >/dev/null && $(MAKE) spark-jars
	$(SPARK_ENV) $(BIN)/python tools/run_tests.py --workers $(WORKERS) --long --compiled

# One step of test-long each: test-unit, test-simulation, test-mutants, test-cluster, test-console.
test-unit test-simulation test-mutants test-cluster test-console: test-%: $(VENV)/.tests
	$(BIN)/python tools/run_tests.py --workers $(WORKERS) --long $*

# All that runs on Spark; needs Java 17 or 21, and is skipped with that reason otherwise.
# With Maven at hand Spark's connector is there, too; what needs it is skipped without.
test-spark: $(VENV)/.tests
	-command -v mvn >/dev/null && $(MAKE) spark-jars
	$(SPARK_ENV) $(BIN)/python tools/run_tests.py --long spark

test-compiled: $(VENV)/.tests compiled
	$(BIN)/python tools/run_tests.py --workers $(WORKERS) --long --compiled compiled cluster

# The hot modules as C (setup.py, by mypyc), the rest as it is: PYTHONPATH=build/compiled runs them. Needs a C compiler
# and Python's headers; a minute and a half.
COMPILED := build/compiled
compiled: $(COMPILED)/.built
$(COMPILED)/.built: $(VENV)/.installed $(shell git ls-files '*.py' '*.tsv' '*.yaml' 'admin/console/*' 2>/dev/null | grep -v '^\(tests\|bench\|tools\)/')
	rm -rf $(COMPILED) build/lib* build/temp* build/bdist*
	KVORUM_COMPILED=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(COMPILED) .
	@touch $@

# Spark's connector for Kafka, for the tests that hold ours beside it; by Maven, into build/.
SPARK_JARS := build/spark-jars
SPARK_ENV = KVORUM_SPARK_JARS=$$(test -d $(SPARK_JARS) && echo $(CURDIR)/$(SPARK_JARS))
SPARK_ARTEFACTS := org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0 \
	org.apache.kafka:kafka-clients:3.9.2 org.apache.commons:commons-pool2:2.13.1
spark-jars: $(SPARK_JARS)/.fetched
$(SPARK_JARS)/.fetched: Makefile
	for each in $(SPARK_ARTEFACTS); do \
		mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact=$$each \
			-DoutputDirectory=$(CURDIR)/$(SPARK_JARS) -Dmdep.useBaseVersion=true || exit 1; \
	done
	@touch $@

# Every shipped scenario, a table at the end; histories, reports and node logs stay in build/chaos.
chaos: $(VENV)/.tests
	$(BIN)/python -m kvorum.cli.main chaos run --all --out build/chaos --junit build/chaos/junit.xml

# The same tests with full counts (records, rounds, minutes), and thousands of seeds.
acceptance: $(VENV)/.tests
	$(BIN)/python -m sim --kind quorum --seeds 1000-4000 --time 600
	KVORUM_RECORDS=20000 KVORUM_ROUNDS=5 KVORUM_EXACTLY_ONCE_RECORDS=100000 KVORUM_EXACTLY_ONCE_DEATHS=100 \
		KVORUM_LONG=all $(BIN)/python -m pytest -q tests/cluster --deselect tests/cluster/test_quorum.py
	KVORUM_LONG=all $(BIN)/python -m pytest -q -n $(WORKERS) tests/simulation tests/mutants
	KVORUM_ROUNDS=20 $(BIN)/python -m pytest -q tests/cluster/test_quorum.py
	KVORUM_LONG=all KVORUM_ROUNDS=10 KVORUM_RECORDS=1000000 $(BIN)/python -m pytest -q -rs \
		tests/spark/bridge/test_kills.py tests/spark/bridge/test_executor_kills.py tests/spark/mirror/test_mirror.py
	$(BIN)/python -m sim --seeds 1-5000

# As many seeds as SOAK seconds hold, of the quorum alone and of whole clusters; failing ones stay in build/failing.
SOAK ?= 1800
soak: $(VENV)/.tests
	$(BIN)/python -m sim --kind all --time $(SOAK) --keep-going --save build/failing

# Kvorum and Apache Kafka 4.3.0 side by side (java and mvn on the PATH).
# ONLY=produce,consume: some measures; `python -m bench --list` names them. Figures go to build/bench/results.json, or to
# OUT: docs/benchmark.json holds those of docs/benchmark.md's table.
ONLY ?=
ROUNDS ?= 5
OUT ?= build/bench/results.json
# PEER=1: a third broker beside them in some measures (bench/peer.py), which cargo builds the first time.
PEER ?=
bench: $(VENV)/.tests compiled
	PYTHONPATH=$(CURDIR)/$(COMPILED) $(BIN)/python -m bench --rounds $(ROUNDS) --out $(OUT) $(if $(ONLY),--only $(ONLY) --keep) $(if $(PEER),--peer)

# Throughput and CPU against partitions, connections, sizes, consumers, replicas and brokers; a node at rest.
# ONLY=partitions,idle: some curves. Points (JSON) and drawings (SVG) go to build/bench/curves.
bench-curves: $(VENV)/.tests compiled
	PYTHONPATH=$(CURDIR)/$(COMPILED) $(BIN)/python -m bench.curves $(if $(ONLY),--only $(ONLY))

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/generate_messages.py --check
	$(BIN)/python tools/generate_skipped.py --check
	$(BIN)/python tools/generate_docs.py --check
	$(BIN)/python tools/generate_grafana.py --check
	$(BIN)/python tools/generate_sync.py --check

# Whatever is written from the code, written again: after a change of configs, metrics, requests or dashboards.
generated: $(VENV)/.installed
	for each in messages node_properties skipped docs grafana compatibility sync; do $(BIN)/python tools/generate_$$each.py || exit 1; done

# Which clients do what: runs the tests that show it, a few minutes, and writes docs/compatibility.json and .md.
compatibility: $(VENV)/.tests
	$(BIN)/python -m tests.compatibility; code=$$?; $(BIN)/python tools/generate_compatibility.py && exit $$code

# The documentation as a website, in build/site. A broken link or anchor, or a page without a place in the navigation,
# is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site/index.html (with search: python3 -m http.server --directory build/site)"

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# What is not Python: alerts, units, scripts, the image, Kubernetes. What pip has is installed; promtool (Debian: prometheus)
# and systemd-analyze (systemd) have to be on the PATH. A linter that is missing is an error: nothing passes unlooked at.
LINTERS := promtool systemd-analyze
lint-deploy: $(VENV)/.lint
	@missing=; for each in $(LINTERS); do command -v $$each >/dev/null || missing="$$missing $$each"; done; \
		test -z "$$missing" || { echo "lint-deploy: not installed:$$missing" >&2; exit 1; }
	promtool check rules configs/prometheus/alerts.yml
	promtool check config configs/prometheus/prometheus.yml
	$(BIN)/shellcheck configs/deploy/docker/run-node
	$(BIN)/yamllint -d '{extends: default, rules: {line-length: {max: 160}, document-start: disable}}' configs/prometheus configs/deploy
	$(BIN)/hadolint configs/deploy/docker/Dockerfile
	for each in namespace service statefulset networkpolicy; do \
		$(BIN)/kubernetes-validate --strict configs/deploy/kubernetes/$$each.yaml || exit 1; done
	@units=$$(mktemp -d) && for each in configs/deploy/systemd/*; do \
		sed 's|/opt/kvorum/bin/kvorum|/bin/true|' $$each > $$units/$${each##*/}; done && \
		said=$$(systemd-analyze verify $$units/* 2>&1); code=$$?; rm -r $$units; \
		echo "systemd-analyze verify: $${said:-nothing to say}"; test -z "$$said" -a $$code = 0

$(VENV)/.lint: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[lint]'
	@touch $@

clean:
	rm -rf $(VENV) build
