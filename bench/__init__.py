"""The benchmark: `python -m bench` starts the real site with the fixture tools, measures it and stops it again.

The numbers in `docs/project/benchmarks.md` come from here. A missed goal is printed but is not a failure, and no test
depends on the speed of a machine.
"""
