"""The benchmark: `python -m bench` starts the real site with the fixture tools, measures it and stops it again.

Owns the numbers of `docs/benchmarks.md`. Refuses to assert: a goal that is missed is printed as missed, and no test
depends on the speed of a machine.
"""
