"""Everything that needs a GPU, in one run: tests, figures, stress, and a dated report. `python -m benchmarks.gpu`.

`facts` says what machine it was, `suite` runs the tests, `figures` times compressors against the targets, `stress`
compares with the CPU for a while, `report` writes what came out. Each part stands in the report as soon as it is done.
"""
