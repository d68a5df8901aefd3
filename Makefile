# The commands one needs; each sets itself up.
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
CHECKED := compll tests benchmarks algorithms

.PHONY: setup demo test matrix lint generate gpu netlab clean

setup: $(STAMP)

$(STAMP): setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(VENV)/bin/compll train --json demo.json --plot demo.png

test: setup
	@$(VENV)/bin/python -m pytest

# every strategy with every program at 2, 3 and 4 ranks, for as many steps as training needs to drift apart
matrix: setup
	COMPLL_MATRIX_STEPS=50 $(VENV)/bin/python -m pytest tests/dist/test_sync.py -k "built_ins_go_every_way or identity_is_the_mean"

lint: setup
	$(VENV)/bin/flake8 $(CHECKED)
	$(VENV)/bin/isort --check-only --quiet $(CHECKED)
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

generate: setup
	$(VENV)/bin/compll generate

# tests, figures and stress on a GPU, with a report in reports/; says so in one line where there is none
gpu: setup
	@! command -v nvidia-smi >/dev/null || $(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,cuda]'
	@$(VENV)/bin/python -m benchmarks.gpu $(GPU_ARGUMENTS)

# steps on shaped networks, with tables; needs root, ip and tc, and says so in one line where they are missing
netlab: setup
	@$(VENV)/bin/python -m benchmarks.netlab $(NETLAB_ARGUMENTS)

clean:
	rm -rf $(VENV) build *.egg-info
