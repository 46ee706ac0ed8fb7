.PHONY: check test nightly
check:
	ruff check .
	ruff format --check .
	lint-imports
	mypy
	python manage.py makemigrations --check
	python -m pytest -n 2 --dist loadfile
test:
	.ci/run
nightly:
	.ci/nightly
