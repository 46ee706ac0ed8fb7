.PHONY: test nightly
test:
	.ci/run
nightly:
	.ci/nightly
