# Two commands do everything on a fresh machine with python3 (venv, pip) and make: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
RUN = $(VENV)/bin

unexport PYTHONDONTWRITEBYTECODE  # tests start hundreds of processes, and each would compile the sources again

.PHONY: demo java browser clients superset test test-all pictures editor map check format bench mutants docs notebooks peers release clean

demo: $(VENV)/.installed  ## the main job end to end on embedded defaults
	$(RUN)/setwise demo

test: $(VENV)/.tested-with java browser clients  ## everything the tests need, then the tests: every engine, store, page and law, small
	$(RUN)/python -m pytest -n 3 -m "not slow"

test-all: $(VENV)/.tested-with java browser clients  ## every test at full size, before a release (about a quarter of an hour)
	SETWISE_TESTS=all $(RUN)/python -m pytest -n 2

java:  ## Spark needs one: installed where that is possible, and said where it is not
	@command -v java >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; } \
		|| echo "no Java here, and it cannot be installed: tests of Spark are skipped, or fail under CI=true"

browser:  ## Chromium, which the tests of the web pages drive; installed when it is missing and we may
	.ci/browser

clients:  ## psql and the JDBC driver, which ask the service over PostgreSQL's protocol; installed when missing and we may
	.ci/clients

superset: $(VENV)/.tested-with  ## Apache Superset in an environment of its own, outside the tree, for its slow test (minutes, once)
	$(RUN)/python -m tests.servers.superset

pictures: $(VENV)/.tested-with browser  ## the screenshots of docs/pages.md, from the tests of the web pages
	$(RUN)/python -m pytest tests/web/test_browser.py tests/web/test_looks.py tests/web/test_asking_in_sql.py
	$(RUN)/python -m tests.web.pictures

editor:  ## the SQL editor of the web pages, bundled from editor/ with npm; the result is committed
	cd editor && npm ci --no-audit --no-fund && npm run build

map:  ## every module with its first line, to find what to change
	@$(PYTHON) website/modules.py

check: $(VENV)/.tested-with  ## style, types, import direction
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/mypy
	$(RUN)/lint-imports

format: $(VENV)/.tested-with
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

bench: $(VENV)/.benched-with  ## the benchmarks, each a table
	$(RUN)/python benchmarks/composition.py
	$(RUN)/python benchmarks/optimum.py
	$(RUN)/python benchmarks/workloads.py
	$(RUN)/python benchmarks/calibrations.py
	$(RUN)/python benchmarks/planning.py
	$(RUN)/python benchmarks/samplers.py
	$(RUN)/python benchmarks/ledger.py
	$(RUN)/python benchmarks/analytics.py
	$(RUN)/python benchmarks/group_statistics.py
	$(RUN)/python benchmarks/discovery.py

clean:
	rm -rf $(VENV) .peers site

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt --editable .
	touch $@

$(VENV)/.benched-with: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt --editable '.[dev,bench]'
	touch $@ $(VENV)/.tested-with $(VENV)/.installed

$(VENV)/.tested-with: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/.installed

mutants: $(VENV)/.tested-with  ## break every mechanism and bound in every listed way and see the tests catch it (about fifteen minutes)
	$(RUN)/python tests/mutants/run.py

docs: $(VENV)/.tested-with  ## the documentation site, into site/; warnings are errors, and nothing is fetched
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict

notebooks: $(VENV)/.tested-with  ## the notebooks, from their pages
	$(RUN)/python website/notebook.py

peers: $(VENV)/.tested-with  ## environments for the peers, every task with each, the tables of docs/comparison.md (half an hour)
	$(RUN)/python benchmarks/peers/run.py

release:  ## wheel, sdist and list of dependencies in dist/, each extra tried in an empty environment
	$(PYTHON) deploy/release.py
