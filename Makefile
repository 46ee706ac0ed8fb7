.PHONY: check test nightly
check:
	ruff check .
	ruff format --check .
	lint-imports
	mypy
	python -m pytest -n 2 --dist loadfile
test:
	.ci/run
nightly:
	.ci/nightly
