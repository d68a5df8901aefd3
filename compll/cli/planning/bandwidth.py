"""Link speeds as typed: `100mbit`, `25gbit`; network units, that is bits a second and powers of ten."""

from __future__ import annotations

import re

from compll.diagnostics import CompllError

PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_FORM = re.compile(r"(\d+(?:\.\d+)?)([kmgt]?)bit", re.IGNORECASE)


def parse_bandwidth(text: str) -> float:
    """Bits a second. Raises CompllError on anything but a number above 0 with kbit, mbit, gbit or tbit."""
    found = _FORM.fullmatch(text.strip())
    bits = float(found[1]) * PREFIXES[found[2].lower()] if found else 0.0
    if not bits > 0:
        raise CompllError(f"a bandwidth needs the form 100mbit or 25gbit, got `{text}`")
    return bits


def show_bandwidth(bits: float) -> str:
    """The speed with two digits and a unit."""
    name, unit = next((n, u) for n, u in reversed(PREFIXES.items()) if bits >= u or not n)
    return f"{float(f'{bits / unit:.2g}'):g} {name}bit/s"
