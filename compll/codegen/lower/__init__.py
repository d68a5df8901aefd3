"""Typed syntax tree -> unoptimised IR: every primitive becomes its own sweep, every elementwise expression one body.

`context` holds what a function's lowering knows, `scalars` makes scalar bodies, `arrays` the sweeps of primitives,
`statements` walks bodies, `program` joins it all. Nothing is optimised here.
"""

from compll.codegen.lower.program import lower

__all__ = ["lower"]
