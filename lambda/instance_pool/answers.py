"""How a poll can end: not yet, complete with data, or the one exception that ends an operation."""

from collections.abc import Mapping
from dataclasses import dataclass

from instance_pool.failures import shortened
from instance_pool.steps import Fail


@dataclass(frozen=True)
class Pending:
    """Not finished: CloudFormation's Provider polls again."""


@dataclass(frozen=True)
class Complete:
    """Finished, with what the resource's attributes answer."""

    data: Mapping[str, str]


class InstancePoolError(Exception):
    """The one exception that ends an operation: code, cause, attempts, and what to do."""

    def __init__(self, failure: Fail) -> None:
        attempts = f" Attempts: {failure.attempts}." if failure.attempts else ""
        super().__init__(f"{failure.code}: {shortened(failure.reason)}{attempts} Next: {failure.advice}")
