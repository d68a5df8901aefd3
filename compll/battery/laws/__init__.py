"""The laws, in the order in which they are reported. A new law is a function and a line here."""

from __future__ import annotations

from compll.battery.law import Law, bound_by
from compll.battery.laws import agreement, feedback, hostile, keys, rounds, traits, values, views, wire

LAWS: tuple[Law, ...] = (
    Law(name="size", check=wire.size),
    Law(name="round_trip", check=wire.round_trip),
    Law(name="special_values", check=values.special_values),
    Law(name="non_finite", check=values.non_finite),
    Law(name="determinism", check=keys.determinism),
    Law(name="generators", check=keys.generators),
    Law(name="agreement", check=agreement.agreement, needs_reference=True),
    Law(name="dtypes", check=views.dtypes),
    Law(name="memory_format", check=views.memory_format),
    Law(name="accumulation", check=views.accumulation),
    Law(name="wrong_length", check=hostile.wrong_length),
    Law(name="hostile_bytes", check=hostile.hostile_bytes),
    Law(name="guard_zones", check=hostile.guard_zones),
    Law(name="feedback", check=feedback.feedback, applies=lambda c: c.feedback),
    Law(name="rounds", check=rounds.rounds, applies=lambda c: c.reduces_inside),
    Law(name="replicas", check=rounds.replicas, applies=lambda c: c.replicated),
    Law(name="linear", check=traits.linear, applies=bound_by("linear")),
    Law(name="shared_seed", check=traits.shared_seed, applies=bound_by("shared_seed")),
    Law(name="unbiased", check=traits.unbiased, applies=bound_by("unbiased")),
    Law(name="contraction", check=traits.contraction, applies=bound_by("contraction")),
    Law(name="zero_preserving", check=traits.zero_preserving, applies=bound_by("zero_preserving")),
    Law(name="momentum", check=traits.momentum, applies=bound_by("momentum")),
)
