"""The commands `profile`, `plan` and `simulate`: what is typed, what is measured, what is shown.

`models` makes jobs of names, `measure` makes profiles (in this process, or `worker` in each of several), `compressors`
loads what a profile speaks of, `simulation` predicts, `bandwidth` reads link speeds, `tables` prints.
"""
