"""Runs one function of an IR program, optimised and compiled for the CPU or the emulator; and by the interpreter,
unoptimised."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from compll.codegen import ir
from compll.codegen.emit import emit_source
from compll.codegen.interpret import run, size_environment
from compll.codegen.kernels import partition
from compll.codegen.layout import payload_layout
from compll.codegen.packing import pack
from compll.codegen.passes import optimise
from compll.codegen.philox import KeyWords
from compll.runtime.devices.base import Segment
from compll.runtime.devices.cpu import FLAGS, CpuFunction, build_library
from compll.runtime.devices.emulation import Emulation
from compll.runtime.devices.emulator import EmulatedFunction
from compll.runtime.devices.launching import Launching
from compll.runtime.devices.records import Records, Workspaces
from compll.runtime.program import TENSOR_DTYPES
from compll.sizes import extent

#: Compiling is what takes the time; the generated text is the same.
QUICK_FLAGS = tuple("-O1" if flag == "-O3" else flag for flag in FLAGS)

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Inputs:
    """What a run needs: sizes, parameters, key, and the arrays by port name (`gradient`, or a state's name)."""

    environment: Mapping[str, float]
    parameters: Mapping[str, ir.Scalar]
    key: KeyWords
    gradient: np.ndarray
    states: Arrays


def interpreted(program: ir.Program, inputs: Inputs) -> dict[str, np.ndarray]:
    """The payload's bytes and the new states, by the interpreter."""
    function = program.function("encode")
    environment = size_environment(program, inputs.environment)
    ports = {
        (p.role, p.name): inputs.gradient if p.role == "gradient" else inputs.states[p.name] for p in function.inputs
    }
    found = run(function, ports, environment, inputs.parameters, inputs.key)
    fields = {name: array for (role, name), array in found.items() if role == "field"}
    counts = {name: int(array) for (role, name), array in found.items() if role == "count"}
    payload = pack(payload_layout(program), environment, fields, counts)
    return {"payload": payload, **{f"state_{n}": array for (role, n), array in found.items() if role == "state"}}


def compiled(
    program: ir.Program, inputs: Inputs, threads: int, flags: tuple[str, ...] = FLAGS
) -> dict[str, np.ndarray]:
    """The same, by generated C++."""
    optimised = optimise(program)
    plan = partition(optimised, optimised.function("encode"), "f32")
    library = ctypes.CDLL(str(build_library("test", emit_source("test", (plan,), "cpu"), flags)))
    entry = library.encode
    entry.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int]
    records = Records(program, plan)
    function = CpuFunction(name="test.encode", plan=plan, entries=[entry], records=records, workspaces=Workspaces())
    arrays = _arrays(program, inputs)
    function([Segment(arrays=arrays, environment=dict(inputs.environment), key=inputs.key)], threads=threads)
    return {name: array.numpy() for name, array in arrays.items() if name == "payload" or name.startswith("state_")}


def emulated(program: ir.Program, inputs: Inputs) -> dict[str, np.ndarray]:
    """The same, by generated CUDA text on the emulator, in the order of threads that $EMULATOR_ORDER says."""
    optimised = optimise(program)
    plan = partition(optimised, optimised.function("encode"), "f32")
    launching = Launching(program, plan)
    names = list(dict.fromkeys(launch.function for launch in launching.launches))
    kernels = Emulation("test-emulated", emit_source("test", (plan,), "cuda"), names)
    function = EmulatedFunction(
        name="test.encode", kernels=kernels, launching=launching, records=Records(program, plan)
    )
    arrays = _arrays(program, inputs)
    function([Segment(arrays=arrays, environment=dict(inputs.environment), key=inputs.key)])
    return {name: array.numpy() for name, array in arrays.items() if name == "payload" or name.startswith("state_")}


def _arrays(program: ir.Program, inputs: Inputs) -> dict[str, torch.Tensor]:
    nbytes = extent(payload_layout(program).nbytes, size_environment(program, inputs.environment))
    arrays = {
        "gradient": torch.from_numpy(inputs.gradient.copy()),
        "payload": torch.zeros(nbytes, dtype=torch.uint8),
        "finite": torch.ones(1, dtype=torch.bool),
        "cut": torch.zeros(1, dtype=torch.int32),
    }
    for state in program.states:
        dtype = TENSOR_DTYPES[state.dtype.name]
        arrays[f"state_{state.name}"] = torch.from_numpy(inputs.states[state.name].copy()).to(dtype)
    return arrays


def unequal(expected: Arrays, found: Arrays) -> list[str]:
    """The names of arrays that are not bit-equal."""
    return [name for name in expected if expected[name].tobytes() != np.asarray(found[name]).tobytes()]
