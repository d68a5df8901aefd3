"""What `compll bench` measures: one compressor at a time against a copy and other ways to do its work, in turns.

`workload` has the gradients, `compiled` and `peers` are what is timed, `contest` times, `rows` has the figures, `table`
and `plot` show them.
"""
