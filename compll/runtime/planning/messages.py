"""Which gradients travel together under a plan, as the runtime has it, and in plain DDP. Pure.

The gradients of a bucket that can be compressed make one message for each strategy, and one for each partition of those
that the plan has in parts. The others wait for the end of the step, for one pool of each dense strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

from compll.runtime.plan import DENSE, Route
from compll.runtime.planning.jobs import Gradient
from compll.runtime.planning.work import Message

#: Bytes of all payloads of a gradient that is cut into so many parts.
Payload = Callable[[Gradient, int], int]


def bucket_messages(gradients: Iterable[Gradient], routes: Sequence[Route], payload: Payload) -> list[Message]:
    """The messages of one bucket's compressible gradients, in the order of the runtime."""
    together: dict[str, list[Gradient]] = {}
    messages: list[Message | str] = []  # a strategy's name keeps the place of what travels together by it
    for gradient, route in zip(gradients, routes, strict=True):
        if route.parts > 1:
            messages += [_share(gradient, route, payload)] * route.parts
        else:
            if route.strategy not in together:
                messages.append(route.strategy)
            together.setdefault(route.strategy, []).append(gradient)
    return [_together(m, together[m], payload) if isinstance(m, str) else m for m in messages]


def pool_messages(gradients: Sequence[Gradient], routes: Mapping[str, Route]) -> list[Message]:
    """The messages at the end of the step, of the gradients that cannot be compressed."""
    by_strategy = {name: [g for g in gradients if routes[g.name].strategy == name] for name in DENSE}
    return [_dense(name, chosen) for name, chosen in sorted(by_strategy.items()) if chosen]


def plain_message(gradients: Sequence[Gradient], strategy: str) -> Message:
    """A bucket in plain DDP, with or without its bf16 hook: one all-reduce."""
    return _dense(strategy, gradients)


def _dense(strategy: str, gradients: Sequence[Gradient]) -> Message:
    return Message(
        strategy=strategy,
        elements=sum(g.numel for g in gradients),
        dense_bytes=sum(g.nbytes for g in gradients),
        count=len({g.dtype for g in gradients}),
    )


def _together(strategy: str, gradients: Sequence[Gradient], payload: Payload) -> Message:
    if strategy in DENSE:
        return _dense(strategy, gradients)
    return reduce(_joined, (_share(gradient, Route(strategy=strategy), payload) for gradient in gradients))


def _share(gradient: Gradient, route: Route, payload: Payload) -> Message:
    """One of the gradient's equal partitions, compressed."""
    parts = route.parts
    return Message(
        strategy=route.strategy,
        elements=gradient.numel // parts,
        dense_bytes=gradient.nbytes // parts,
        payload_bytes=payload(gradient, parts) // parts,
    )


def _joined(one: Message, other: Message) -> Message:
    return Message(
        strategy=one.strategy,
        elements=one.elements + other.elements,
        dense_bytes=one.dense_bytes + other.dense_bytes,
        payload_bytes=one.payload_bytes + other.payload_bytes,
        count=one.count + other.count,
    )
