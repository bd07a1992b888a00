# Everything on a fresh machine that has Python >= 3.10 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= nnunet-dro-demo
DEVICE ?= cuda

.PHONY: install demo test test-fast test-versions lint format docs docs-serve viewer example dist benchmarks benchmarks-peers gpu-check experiments clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml nnunet_dro/trainers/discovery/nnUNetTrainer_nnunet_dro.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

demo: install
	$(BIN)/nnunet-dro demo --out $(OUT)

test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=15

test-fast: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not long" -n 2 --dist loadfile --no-loadscope-reorder

# The tests that are not slow, with every version of Python and of the main packages that is there; noxfile.py names them.
test-versions: install
	$(BIN)/nox

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The site: every page of docs, a reference of commands and Python; nothing is loaded from elsewhere.
docs: install
	$(BIN)/mkdocs build --strict

docs-serve: install
	$(BIN)/mkdocs serve

# NiiVue as one file for cases.html, with its licences; needs npm. The same versions give the same bytes.
viewer:
	cd viewer-build && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build

# The pages of docs/example, from a run of the demo.
example: install
	$(BIN)/nnunet-dro demo --out $(OUT)
	$(BIN)/python docs/make_example.py --demo $(OUT)

# The source archive and the wheel, checked; the wheel is installed into a fresh environment and looked for by nnU-Net.
dist: install
	$(BIN)/nox --session dist

benchmarks: install
	$(BIN)/python benchmarks/sampler.py
	$(BIN)/python benchmarks/draws_of_rules.py
	$(BIN)/python benchmarks/train_step.py
	$(BIN)/python benchmarks/ranking.py

# In a place of its own: the peers ask for older versions of other packages.
benchmarks-peers:
	test -x $(VENV)-peers/bin/python || $(PYTHON) -m venv $(VENV)-peers
	$(VENV)-peers/bin/python -m pip install --quiet --editable ".[peers]"
	$(VENV)-peers/bin/python benchmarks/evaluation.py

# Needs a GPU; what makes sense without one: make gpu-check DEVICE=cpu
gpu-check: install
	$(BIN)/python benchmarks/gpu_check.py --device $(DEVICE)

# These take hours on a CPU; an interrupted one continues where it stopped. With --quick each takes a minute or two.
experiments: install
	$(BIN)/python -m experiments reweighting-limits
	$(BIN)/python -m experiments digits
	$(BIN)/python -m experiments imbalanced-pair
	$(BIN)/python -m experiments imbalanced-pair-published
	$(BIN)/python -m experiments hardness-signals
	$(BIN)/python -m experiments segmentation-finetuning
	$(BIN)/python -m experiments convergence --methods DRO IW cvar0.1
	$(BIN)/python -m experiments convergence-long --methods DRO --seeds 0 1 2
	$(BIN)/python -m experiments convergence-slices --methods DRO IW DRO_explore0.3 cvar0.1
	$(BIN)/python -m experiments convergence-lesions-slices --methods DRO DRO_earned IW
	$(BIN)/python -m experiments phantoms-factorial
	$(BIN)/python -m experiments label-noise
	$(BIN)/python -m experiments demo

clean:
	rm -rf $(VENV) $(VENV)-peers .nox build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
