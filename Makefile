# The commands one needs; each sets itself up.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: setup demo test lint generate gpu clean

setup: $(STAMP)

$(STAMP): setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(VENV)/bin/compll train --compressor topk:ratio=0.01 --compressor adtopk:ratio=0.01 --json demo.json --plot demo.png

test: setup
	$(VENV)/bin/python -m pytest

lint: setup
	$(VENV)/bin/flake8 compll tests benchmarks
	$(VENV)/bin/isort --check-only --quiet compll tests benchmarks
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

generate: setup
	$(VENV)/bin/compll generate

clean:
	rm -rf $(VENV) build *.egg-info
