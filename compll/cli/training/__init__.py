"""The demo job: real data, several worker processes, one model trained once for every way of exchanging gradients.

`request` reads what is wanted, `tasks` has data and models, `worker` trains in one process, `launch` starts the
processes and listens to them, `results`, `table` and `plot` show what came out. Only `exchange` knows compll's hook.
"""
