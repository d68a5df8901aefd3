"""`compll explain`: what a program costs before anything runs: kernels, passes, bytes moved, bytes sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from compll.cli.arguments import USUAL_SHAPE, Json, Params, Program, Shape
from compll.cli.output import console, write_json
from compll.cli.stages import specialise
from compll.cli.values import parse_params, parse_shape
from compll.codegen.emit.cuda import launches, merge_launches
from compll.codegen.interpret import size_environment
from compll.codegen.merge_traffic import merge_traffic
from compll.codegen.traffic import Traffic, traffic
from compll.codegen.walks import MERGED
from compll.diagnostics import CompllError
from compll.runtime.program import Sized

#: How many payloads the merge has that is shown; each further one costs a `decode_add`, or its own bytes in one walk.
PAYLOADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A program at one shape; `costs` has the functions that training runs, the encoder first, and `merge`, the mean of
    PAYLOADS payloads."""

    sized: Sized
    costs: dict[str, Traffic]

    @property
    def encoder(self) -> Traffic:
        return next(iter(self.costs.values()))

    def as_json(self) -> dict[str, Any]:
        program = self.sized.compilation.program
        kernels = [kernel for cost in self.costs.values() for kernel in cost.kernels]
        return {
            "compressor": program.name, "elements": self.sized.numel, "traits": list(program.traits),
            "feedback": program.feedback, "passes": self.encoder.passes,
            "bytes_per_element": self.encoder.bytes_per_element,
            "floor_bytes_per_element": self.encoder.floor_bytes_per_element,
            "payload_bytes": self.sized.payload_nbytes, "ratio": 4 * self.sized.numel / self.sized.payload_nbytes,
            "kernels": [{"function": f, "pattern": p, "name": n} for f, p, n in kernels],
            "functions": {
                name: {
                    "passes": cost.passes, "bytes_per_element": cost.bytes_per_element,
                    "floor_bytes_per_element": cost.floor_bytes_per_element,
                    "launches": self._launches(name),
                }
                for name, cost in self.costs.items()
            },
            "merged_payloads": PAYLOADS,
        }  # fmt: skip

    def _launches(self, name: str) -> tuple[tuple[str, ...], ...]:
        plans = self.sized.compilation.plans
        return merge_launches(plans, PAYLOADS) if name == "merge" else launches(plans[name])


def explain(file: Program, shape: Shape = USUAL_SHAPE, param: Params = None, json: Json = None) -> None:
    """Show kernels, passes over the gradient, bytes per element against the floor, payload size and traits."""
    sized = specialise(file, parse_params(param or (), "the program"), parse_shape(shape))
    if sized.numel == 0:
        raise CompllError(f"shape {shape} has no elements: there is nothing to explain")
    explanation = explain_sized(sized)
    _show(explanation.as_json(), shape)
    write_json(json, {"file": file, "shape": list(parse_shape(shape)), **explanation.as_json()})


def explain_sized(sized: Sized) -> Explanation:
    """The costs of the functions that training runs."""
    plans = sized.compilation.plans
    compilation = sized.compilation
    encoder = compilation.feedback_function if compilation.program.feedback else "encode"
    environment = size_environment(sized.compilation.program, sized.environment)
    names = [encoder, *(n for n in plans if not n.startswith("encode") and n != "lazy_residual")]
    costs = {name: traffic(plans[name], environment) for name in names}
    if plans.keys() >= set(MERGED):
        costs["merge"] = merge_traffic(plans, environment, PAYLOADS)
    return Explanation(sized=sized, costs=costs)


def _show(report: dict[str, Any], shape: str) -> None:
    out = console()
    sent = f"{report['payload_bytes']:,} bytes sent, {report['ratio']:.1f} times less than f32"
    out.print(f"{report['compressor']} at {shape}: {sent}")
    feedback = "residual" if report["feedback"] else "none"
    out.print(f"traits: {', '.join(report['traits']) or 'none'}; feedback: {feedback}")
    table = Table()
    table.add_column("function")
    for heading in ("passes", "bytes/element", "floor"):
        table.add_column(heading, justify="right")
    table.add_column("launches", justify="right")  # on a GPU, of any number of gradients
    table.add_column("kernels", overflow="fold")
    for name, cost in report["functions"].items():
        kernels = [f"{k['name']} ({k['pattern']})" for k in report["kernels"] if k["function"] == name]
        figures = (f"{cost[key]:.2f}" for key in ("bytes_per_element", "floor_bytes_per_element"))
        label = f"merge of {report['merged_payloads']}" if name == "merge" else name
        table.add_row(label, str(cost["passes"]), *figures, str(len(cost["launches"])), "\n".join(kernels))
    out.print(table)
