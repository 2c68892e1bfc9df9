# The project's commands. `make` alone lists them; pass options through ARGS="...".

PYTHON ?= python3
READY_PRE := .venv-pre/.ready-pre
# cpu, gpu or pre; once chosen by `make setup`, the other targets keep it. pre has a .venv-pre of its own.
TF ?= $(if $(wildcard .venv/.ready-gpu),gpu,$(if $(wildcard .venv/.ready-cpu),cpu,$(if $(wildcard $(READY_PRE)),pre,cpu)))
ARGS ?=
NAME ?=
VENV := .venv$(if $(filter pre,$(TF)),-pre)
READY := $(VENV)/.ready-$(TF)
BIN := $(VENV)/bin
# A Python 3.10 or 3.11; empty: PYTHON if it is one, else python3.11 or python3.10.
PYTHON_TF215 ?=
READY_TF215 := .venv-tf215/.ready-tf215
READY_DOCS := .venv-docs/.ready-docs
# Lines of the chaos run that are shown: faults, rows of the table, errors and the summary.
RELIABILITY_LINES := ^(chaos +\||\| |E  |FAILED|ERROR|=)
# What the version of TensorFlow decides: tf.estimator beside ours, public names and old programs,
# Keras 2, checkpoints and exports, variables and devices, graphs that are searched. Our formulas
# (those of cells, decoders and optimizers, too), processes, texts and reports are tested on one
# TensorFlow only; for the names and arguments of TensorFlow that they use there is
# tests/test_used_names.py.
TESTS_TF215 := tests/test_used_names.py tests/tf215 tests/model_deploy \
	$(filter-out %/test_addresses.py %/test_onednn.py,$(wildcard tests/replicate/test_*.py)) \
	$(addprefix tests/replicate/,batch_norm canned/test_optimizers.py export graph_ops \
		keras_model saved tower variables) \
	$(wildcard tests/replicate/compat/test_*.py tests/replicate/compat/contrib/test_*.py) \
	$(addprefix tests/replicate/compat/,layers old_tensorflow \
		$(addprefix contrib/,framework graph_editor layers learn repaired_slim training)) \
	$(addprefix tests/replicate/estimator/,checkpoints $(patsubst %,test_%.py, \
		estimator evaluating exporting keras_names session training warm_start)) \
	$(addprefix tests/kfac/,graph_search keras/test_equality.py registration old_programs \
		test_optimizer.py)
# What the next version of TensorFlow, and of Keras, has decided before: names, variables and
# devices, input pipelines, graphs that are searched.
TESTS_PRE := tests/test_used_names.py \
	$(addprefix tests/replicate/,compat/test_runner.py estimator/checkpoints tower variables) \
	$(addprefix tests/kfac/,graph_search keras/test_fisher_approx.py keras/test_equality.py)

# Without bytecode files pytest rewrites the assertions of all tests anew in each run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup train test test-all test-tf215 test-pre test-reliability docs bench gpu-check lint audit build lock clean

help:
	@echo 'Usage: make TARGET [ARGS="..."]'
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' Makefile

setup: $(READY)  ## make .venv with all that training and testing need (TF=gpu: for GPUs; TF=pre: .venv-pre, the next TensorFlow)

train: setup  ## train the example ConvNet with K-FAC on two towers; ARGS="--help" lists its options
	$(BIN)/python -m examples.convnet $(ARGS)

test: setup  ## run the tests that find nearly all faults; ARGS="tests/kfac -k damping" picks others
	$(BIN)/python -m pytest -n auto --dist=loadfile $(or $(ARGS),--scope=core)

test-all: setup  ## run the tests that `make test` leaves out: broad ones, and those on TensorFlow 2.15 and 2.22
	@start=$$(date +%s); \
	$(MAKE) --no-print-directory test ARGS=--scope=broad || exit; \
	if missing=$$(bash tools/find_python.sh tf215 2>&1 >/dev/null); then \
		$(MAKE) --no-print-directory test-tf215 || exit; \
	else \
		echo "TensorFlow 2.15 left out: $$missing"; \
	fi; \
	$(MAKE) --no-print-directory test-pre || exit; \
	echo "make test-all took $$(($$(date +%s) - start)) s."

test-tf215: $(READY_TF215)  ## run the tests on TensorFlow 2.15, inside its own tf.estimator
	TF_ENABLE_ONEDNN_OPTS=1 .venv-tf215/bin/python -m pytest -n auto --dist=loadfile $(or $(ARGS),--scope=core $(TESTS_TF215))

test-pre:  ## run the tests that the next TensorFlow can decide, in .venv-pre
	$(MAKE) --no-print-directory test TF=pre ARGS="$(or $(ARGS),--scope=core $(TESTS_PRE))"

# The target fails if pytest does, although grep succeeds.
test-reliability: SHELL := bash
test-reliability: .SHELLFLAGS := -o pipefail -c
test-reliability: setup  ## train for 5 minutes in random faults; ARGS="--seed=7 --minutes=15" (2 x 15) changes them
	@mkdir -p runs
	$(BIN)/python -m pytest tests/reliability/endurance/test_chaos.py -m slow -s $(ARGS) 2>&1 \
		| tee runs/test-reliability.log | grep --line-buffered -E '$(RELIABILITY_LINES)'

docs: $(READY_DOCS)  ## build the site, docs/_build/html/index.html; VERSIONS="v0.2.0 main" builds these, with a selector
ifdef VERSIONS
	.venv-docs/bin/python tools/build_versions.py --sphinx='$(ARGS)' docs/_build/html $(VERSIONS)
else
	rm -rf docs/_build/html
	PYTHONPATH=$(CURDIR) .venv-docs/bin/python -m sphinx -W --keep-going -E -j auto -q $(ARGS) docs docs/_build/html
	.venv-docs/bin/python tools/check_search.py docs/_build/html
endif
	.venv-docs/bin/python tools/check_site.py docs/_build/html

bench: setup  ## run the benchmarks into runs/bench; NAME=tower_step runs one
	$(BIN)/python -m benchmarks $(if $(NAME),--name=$(NAME)) $(ARGS)

gpu-check: setup  ## check towers and K-FAC on the GPUs of this machine, into runs/gpu_check
	$(BIN)/python -m benchmarks.gpu_check $(ARGS)

lint: setup  ## check style, format, types, import rules and spelling
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m codespell_lib

audit: setup  ## look for known vulnerabilities, and for dependencies that are missing or not used
	$(BIN)/deptry .
	$(BIN)/pip-audit --disable-pip --require-hashes -r requirements.lock

build: setup  ## build sdist and wheel into dist/, check them, run the guides' programs on the wheel (ARGS=--all: all)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --sdist --wheel . >/dev/null
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	bash tools/try_wheel.sh $(ARGS) dist/*.whl

lock:  ## write all requirements*.lock anew from pyproject.toml
	@PYTHON="$(PYTHON)" bash tools/lock.sh

clean:  ## remove .venv*, caches, build output and runs/ (trained models)
	rm -rf .venv .venv-docs .venv-pre .venv-tf215 build dist runs docs/_build docs/reference/api *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

.venv/.ready-%: requirements.lock requirements-legacy.lock
	@PYTHON="$(PYTHON)" bash tools/setup_venv.sh $*

$(READY_PRE): requirements-pre.lock
	@PYTHON="$(PYTHON)" bash tools/setup_venv.sh pre

$(READY_TF215): requirements-tf215.lock
	@PYTHON="$(PYTHON)" PYTHON_TF215="$(PYTHON_TF215)" bash tools/setup_venv.sh tf215

$(READY_DOCS): requirements-docs.lock | setup
	@bash tools/setup_venv.sh docs

.venv/.ready-cpu .venv/.ready-gpu $(READY_DOCS) $(READY_PRE) $(READY_TF215): pyproject.toml setup.py tools/setup_venv.sh tools/find_python.sh
