"""How large a program may be: what is larger is refused with a place, and quickly.

Compiling takes time that grows with the square of a program, and every walk of a tree is recursive: without limits a
text of a few lines could ask for hours, or for all memory. The programs that ship stay far below.
"""

MAX_CHARACTERS = 1 << 20  # of a file, comments included
MAX_TOKENS = 20_000  # words, numbers and signs
MAX_BRACKETS = 200  # open at one place
MAX_DEPTH = 100  # levels of the tree: keeps every recursive walk of the compiler far from Python's stack limit
MAX_LEVELS = 32  # of `fn`s that call `fn`s: they are expanded where they are called
MAX_STEPS = 2_000  # statements and operations, those of a `fn` counted at every call: a few calls can double it often
MAX_FIELDS = 64  # of a payload, and states: the offset of each is an expression that has all before it inside
MAX_TERMS = 200  # names, numbers and operations of a size with all named sizes written out
MAX_ROUNDS = 10_000  # of a `repeat`: the only loop, so the only thing that could run for ever
