"""Machines on a hub: a namespace for each, and a link to the hub that is shaped in both directions."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.netlab.namespaces import Namespace, new_namespace

DEVICE = "eth0"
TOOLS = ("ip", "tc")

#: A link lets through at once what it carries in BURST_S, far below a step's payloads; a busy machine's timers do not
#: keep a link with less of it busy. QUEUE is how long bytes may wait before they are dropped.
BURST_S = 1e-3
LEAST_BURST = 64_000
QUEUE = "50ms"

UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


@dataclass(frozen=True, slots=True)
class Lab:
    machines: Sequence[Namespace]
    hub: Namespace

    def shape(self, rate: str) -> None:
        """Let every link carry `rate` (1gbit, 100mbit) each way; `none` takes all limits off."""
        for number, machine in enumerate(self.machines):
            _shape(machine, DEVICE, rate)
            _shape(self.hub, f"port{number}", rate)


@contextmanager
def open_lab(machines: int) -> Iterator[Lab]:
    """Machine i has the address `address(i)` on DEVICE. Raises OSError or RuntimeError where it cannot be built."""
    with ExitStack() as stack:
        hub, *others = (_opened(stack) for _ in range(machines + 1))
        hub.run("ip", "link", "add", "hub", "type", "bridge")
        hub.run("ip", "link", "set", "hub", "up")
        for number, machine in enumerate(others):
            _connect(hub, machine, number)
        yield Lab(machines=others, hub=hub)


def why_not() -> str | None:
    """Why there can be no lab here, or None: found out by building a small one."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid():
        return "network namespaces need root"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"{' and '.join(missing)} of iproute2 not found"
    try:
        with open_lab(1) as lab:
            lab.shape("100mbit")
    except (OSError, RuntimeError) as problem:
        return f"no shaped network can be made: {problem}"
    return None


def address(machine: int) -> str:
    return f"10.77.0.{machine + 1}"


def burst(rate: str) -> int:
    """How many bytes pass at once, 0 where there is no limit."""
    if rate == "none":
        return 0
    return max(LEAST_BURST, int(bits_per_second(rate) / 8 * BURST_S))


def bits_per_second(rate: str) -> float:
    """Of a rate as `tc` takes it; inf for `none`. Raises ValueError for another text."""
    if rate == "none":
        return float("inf")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", rate)
    if match is None:
        raise ValueError(f"a rate needs the form 100mbit, 1gbit or none, got `{rate}`")
    return float(match[1]) * UNITS[match[2]]


def _opened(stack: ExitStack) -> Namespace:
    namespace = new_namespace()
    stack.callback(namespace.close)
    return namespace


def _connect(hub: Namespace, machine: Namespace, number: int) -> None:
    port = f"port{number}"
    hub.run("ip", "link", "add", port, "type", "veth", "peer", "name", DEVICE, "netns", machine.path)
    hub.run("ip", "link", "set", port, "master", "hub", "up")
    machine.run("ip", "address", "add", f"{address(number)}/24", "dev", DEVICE)
    machine.run("ip", "link", "set", DEVICE, "up")
    machine.run("ip", "link", "set", "lo", "up")


def _shape(namespace: Namespace, device: str, rate: str) -> None:
    if rate == "none":
        namespace.run("tc", "qdisc", "replace", "dev", device, "root", "pfifo")
    else:
        namespace.run(
            "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", str(burst(rate)),
            "latency", QUEUE,
        )  # fmt: skip
