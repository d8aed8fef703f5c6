.PHONY: mutants
mutants:
	python tests/mutants/run.py --write docs/mutants.md
