"""What an endpoint may cost, as one line that every synth prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stacks.prices import HOURS_PER_MONTH, Price, Prices


@dataclass(frozen=True)
class Candidate:
    """Instances that an endpoint may end up on."""

    instance_type: str
    instance_count: int


def cost_note(
    endpoint_name: str,
    *,
    environment_name: str,
    region: str,
    candidates: Sequence[Candidate],
    left_out: Mapping[str, str],
    prices: Prices,
) -> str:
    """Say what the endpoint may run on, preferred first, and what it costs in a month.

    Shown are the first candidate and the dearest whose price is known.
    """
    known = {
        candidate: price
        for candidate in candidates
        if (price := prices.price(region, candidate.instance_type)) is not None
    }
    sentences = [
        f"{endpoint_name} runs on {_first_of(candidates)}",
        *_estimate(known, candidates),
        *_unknown([candidate for candidate in candidates if candidate not in known], region),
        *(f"{name} is never tried: {reason}" for name, reason in left_out.items()),
        f"Billed from the first instance until destroyed: make destroy ENV={environment_name}",
    ]
    return ". ".join(sentences) + "."


def _first_of(candidates: Sequence[Candidate]) -> str:
    names = [
        instance_type if count == 1 else f"{count} x {instance_type}"
        for instance_type, count in ((c.instance_type, c.instance_count) for c in candidates)
    ]
    return names[0] if len(names) == 1 else f"the first to be had of {', '.join(names)}"


def _estimate(known: Mapping[Candidate, Price], candidates: Sequence[Candidate]) -> list[str]:
    if not known:
        return []
    dearest = max(known, key=lambda candidate: known[candidate].usd * candidate.instance_count)
    first = candidates[0]
    if first == dearest:
        also = ", the first choice and the dearest known," if len(candidates) > 1 else ","
        return [f"Estimate: {first.instance_type}{also} {_monthly(first, known[first])}"]
    parts = [f"{first.instance_type}, {_monthly(first, known[first])}"] if first in known else []
    parts.append(f"the dearest known is {dearest.instance_type}, {_monthly(dearest, known[dearest])}")
    return [f"Estimate: {'; '.join(parts)}"]


def _monthly(candidate: Candidate, price: Price) -> str:
    monthly_usd = price.usd * candidate.instance_count * HOURS_PER_MONTH
    return (
        f"about {monthly_usd:,.0f} USD a month"
        f" ({candidate.instance_count} x {price.usd:g} USD x {HOURS_PER_MONTH} h; price of {price.date})"
    )


def _unknown(candidates: Sequence[Candidate], region: str) -> list[str]:
    if not candidates:
        return []
    names = ", ".join(dict.fromkeys(candidate.instance_type for candidate in candidates))
    return [f"Price unknown in {region}: {names} (semif prices {region} looks it up)"]
