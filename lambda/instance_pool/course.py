"""The course of one operation over the pool: what it has tried, what is next, and that in words. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from instance_pool.attempts import Outcome, attempt_text, joined, passed_over, tag_value
from instance_pool.failures import ADVICE, Cause, classify_failure_reason
from instance_pool.observation import Configuration, Observation
from instance_pool.pool import Pool, Round
from instance_pool.preflight import Skip, preflight, refusal, skipped_text
from instance_pool.steps import Fail, Record

_TOLD_REASON_LENGTH: Final = 120
_SERIAL_CAPACITY_S: Final = 900
"""No single type's lack of capacity shows sooner: about 30 minutes are usual."""


@dataclass(frozen=True)
class Leg:
    """What is tried next: types of the round at `index`. `configuration`: the one made for it already."""

    configuration_name: str
    index: int
    types: tuple[str, ...]
    configuration: Configuration | None = None
    skipped: tuple[Skip, ...] = ()


@dataclass(frozen=True)
class Exhausted:
    """No round is left. `skipped`: types that were passed over since the last attempt."""

    skipped: tuple[Skip, ...]


def attempts_of(observation: Observation, pool: Pool, request_id: str) -> tuple[Configuration, ...]:
    """The configurations of one operation in the order of its attempts."""
    found = [
        (index, -len(item.attempt.types), item.created_at, item.name, item)
        for item in observation.configurations
        if item.attempt.request_id == request_id and (index := pool.index_of(item.name)) is not None
    ]
    return tuple(item for *_, item in sorted(found, key=lambda entry: entry[:4]))


def current(observation: Observation, pool: Pool) -> tuple[Configuration, ...]:
    """The attempts of this operation."""
    return attempts_of(observation, pool, observation.request_id)


def next_leg(observation: Observation, pool: Pool) -> Leg | Exhausted:
    """Where the attempts and what is known of the types lead, unless an attempt has failed for good."""
    tried = current(observation, pool)
    last = tried[-1] if tried else None
    index = (pool.index_of(last.name) or 0) if last is not None else 0
    base = pool.rounds[index].types
    again = 0
    if last is not None:
        match last.attempt.outcome:
            case None | Outcome.IN_SERVICE:
                return Leg(last.name, index, last.attempt.types, last)
            case Outcome.CAPACITY:
                base = ()
            case Outcome.QUOTA:
                # A refusal may name a type that is not in the round; then the round cannot be had.
                named = last.attempt.dropped
                base = (
                    tuple(t for t in last.attempt.types if t != named) if named in last.attempt.types else ()
                )
            case Outcome.FAILED:
                base, again = last.attempt.types, 1
    skipped: list[Skip] = []
    while True:
        skips = _skips(observation, pool, pool.rounds[index], base)
        skipped += skips.values()
        if types := tuple(name for name in base if name not in skips):
            return Leg(_name(observation, pool, index, types, again), index, types, skipped=tuple(skipped))
        index += 1
        again = 0
        if index == len(pool.rounds):
            return Exhausted(tuple(skipped))
        base = pool.rounds[index].types


def _name(observation: Observation, pool: Pool, index: int, types: tuple[str, ...], again: int) -> str:
    """The round's plain name, unless this is not the whole round or an earlier operation holds the name."""
    name = pool.round_name(index)
    if types == pool.rounds[index].types and not again and observation.configuration(name) is None:
        return name
    return pool.attempt_name(index, types, observation.request_id, again)


def _skips(observation: Observation, pool: Pool, one: Round, types: Iterable[str]) -> dict[str, Skip]:
    survey = observation.survey
    refused = {
        name: Skip(name, "no instance type that SageMaker knows in this region")
        for name in types
        if name in survey.refused
    }
    known = [name for name in types if name not in refused]
    return refused | preflight(
        known,
        survey.limits,
        needed=one.initial_instance_count,
        creating=observation.endpoint is None,
        update=pool.update.type,
        batch_percent=pool.update.batch_percent,
    )


def stop(observation: Observation, pool: Pool, legs: Leg | Exhausted | None) -> Fail | None:
    """The failure that this operation's attempts amount to, if they do.

    `legs` is what could be tried next, None if that is not to be asked.
    """
    tried = current(observation, pool)
    last = tried[-1].attempt if tried else None
    if last is not None and last.outcome is Outcome.FAILED and not _once_more(tried):
        cause = classify_failure_reason(last.reason)
        reason = f"{', '.join(last.types)}: {last.reason}"
        return Fail(cause.value, reason, ADVICE[cause], told(pool, tried))
    if not isinstance(legs, Exhausted):
        return None
    attempts = told(pool, tried, skipped=legs.skipped, with_reasons=True)
    if not tried:
        if all(skip.instance_type in observation.survey.refused for skip in legs.skipped):
            names = ", ".join(skip.instance_type for skip in legs.skipped)
            reason = f"{names}: no instance type that SageMaker knows in this region."
            return Fail(Cause.UNKNOWN_TYPE.value, reason, ADVICE[Cause.UNKNOWN_TYPE], attempts)
        reason, advice = refusal({skip.instance_type: skip for skip in legs.skipped})
        return Fail(Cause.QUOTA.value, reason, advice, attempts)
    without_quota = {item.attempt.outcome for item in tried} == {Outcome.QUOTA}
    return Fail(
        "pool_exhausted",
        "No instance type of the pool can be had.",
        ADVICE[Cause.QUOTA if without_quota else Cause.CAPACITY],
        attempts,
    )


def over(observation: Observation, pool: Pool) -> bool:
    """Whether no round can follow, whatever the quotas say."""
    tried = current(observation, pool)
    if not tried or pool.index_of(tried[-1].name) != len(pool.rounds) - 1:
        return False
    last = tried[-1].attempt
    rest = set(last.types) - {last.dropped} if last.outcome is Outcome.QUOTA else set()
    return last.outcome is Outcome.CAPACITY or (
        last.outcome is Outcome.QUOTA and (not rest or last.dropped not in last.types)
    )


def _once_more(tried: Sequence[Configuration]) -> bool:
    """Whether SageMaker itself failed, for the first time with these types."""
    last = tried[-1].attempt
    if classify_failure_reason(last.reason) is not Cause.SERVICE_FAILED:
        return False
    return not any(
        item.attempt.outcome is Outcome.FAILED and item.attempt.types == last.types for item in tried[:-1]
    )


def settled_outcome(observation: Observation, pool: Pool, configuration: Configuration, what: str) -> Record:
    """How an attempt that began has ended, by the reason that the endpoint shows."""
    endpoint = observation.endpoint
    reason = endpoint.failure_reason if endpoint is not None else ""
    attempt = configuration.attempt
    if reason and attempt.reason_before and attempt.started_at is not None:
        # The update before left a reason that SageMaker goes on showing. The same text can be this one's
        # only if as much time went by as a lack of capacity takes to show.
        least_s = pool.provision_timeout_s if pool.provision_timeout_s is not None else _SERIAL_CAPACITY_S
        took_s = (observation.now - attempt.started_at).total_seconds()
        if tag_value(reason) == attempt.reason_before and took_s < least_s:
            reason = ""
    if not reason:
        return Record(configuration.name, Outcome.FAILED, f"{what} and SageMaker gave no reason.")
    match classify_failure_reason(reason):
        case Cause.CAPACITY:
            return Record(configuration.name, Outcome.CAPACITY, reason)
        case Cause.QUOTA:
            return Record(configuration.name, Outcome.QUOTA, reason)
        case _:
            return Record(configuration.name, Outcome.FAILED, reason)


def told(
    pool: Pool,
    tried: Iterable[Configuration],
    *,
    serving: Sequence[str] = (),
    skipped: Iterable[Skip] = (),
    with_reasons: bool = False,
) -> str:
    """All that was left out, skipped and tried, in words and in order; at most 1,000 bytes."""
    entries = [f"{name}: left out, {why}" for name, why in pool.left_out]
    for item in tried:
        entries += [_skipped_entry(text) for text in item.attempt.skipped]
        if passed := passed_over(item.attempt, serving):
            entries.append(f"{', '.join(passed)}: passed over by SageMaker")
        reason = f" ({item.attempt.reason[:_TOLD_REASON_LENGTH]})" if item.attempt.reason else ""
        entries.append(attempt_text(item.attempt, serving) + (reason if with_reasons else ""))
    entries += [_skipped_entry(text) for text in skip_texts(skipped)]
    return joined(entries)


def skip_texts(skipped: Iterable[Skip]) -> tuple[str, ...]:
    """Each skipped type with why, short enough for a tag."""
    return tuple(skipped_text({skip.instance_type: skip}) for skip in skipped)


def _skipped_entry(text: str) -> str:
    name, colon, why = text.partition(": ")
    return f"{name}: skipped, {why}" if colon else text
