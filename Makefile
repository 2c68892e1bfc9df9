# The project's commands. `make` alone lists them; pass options through ARGS="...".

PYTHON ?= python3
# cpu or gpu; once chosen by `make setup`, the other targets keep it.
TF ?= $(if $(wildcard .venv/.ready-gpu),gpu,cpu)
ARGS ?=
READY := .venv/.ready-$(TF)
BIN := .venv/bin

.PHONY: help setup train test lint lock clean

help:
	@echo 'Usage: make TARGET [ARGS="..."]'
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-7s %s\n", $$1, $$2}' Makefile

setup: $(READY)  ## make .venv with everything that training and testing need (TF=gpu for GPUs)

train: setup  ## train the example ConvNet with K-FAC on two towers; ARGS="--help" lists its options
	$(BIN)/python -m examples.convnet $(ARGS)

test: setup  ## run the tests; ARGS="tests/kfac -k damping" picks some
	$(BIN)/python -m pytest -n auto $(ARGS)

lint: setup  ## check style, format, types, import rules and spelling
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m codespell_lib

lock:  ## write requirements.lock anew from pyproject.toml
	@PYTHON="$(PYTHON)" bash tools/lock.sh

clean:  ## remove .venv, caches, build output and runs/ (trained models)
	rm -rf .venv build dist runs *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml setup.py tools/setup_venv.sh
	@PYTHON="$(PYTHON)" bash tools/setup_venv.sh $(TF)
