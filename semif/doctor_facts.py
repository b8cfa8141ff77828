"""What `semif doctor` looks at: everything it read before it judges. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from semif.findings import Unknown

SourceState = Literal["reachable", "closed", "missing", "elsewhere", "unreachable"]


@dataclass(frozen=True)
class Identity:
    """Who the credentials are."""

    account: str
    arn: str


@dataclass(frozen=True)
class Versions:
    """Of the CDK CLI and of Node: what is there ("" if nothing), and what the project asks for."""

    cdk: str
    cdk_wanted: str
    node: str
    node_at_least: int


@dataclass(frozen=True)
class Quota:
    """One quota of Service Quotas."""

    name: str
    code: str
    value: float


@dataclass(frozen=True)
class EndpointState:
    """An endpoint that exists. `stack_id` is the tag of the stack that made it, `fleet` instances by type."""

    status: str
    stack_id: str
    fleet: Mapping[str, int]


@dataclass(frozen=True)
class StackState:
    """A stack that exists. `new_fleet`: this deployment changes what its endpoint's instances depend on."""

    id: str
    status: str
    protected: bool
    new_fleet: bool | None = None


@dataclass(frozen=True)
class Source:
    """The model's source. `detail` is an HTTP status, a region or an error, by its state."""

    state: SourceState
    detail: str = ""


@dataclass(frozen=True)
class Session:
    """The credentials' life. `renewable`: the SDK gets new ones by itself; `expires_at` None: not known."""

    temporary: bool
    renewable: bool
    expires_at: datetime | None


@dataclass(frozen=True)
class Facts:
    """All of it. Where the credentials reach nobody, `identity` says so and the rest is empty.

    `quotas` and `in_use` are by instance type, `build_quotas` by compute type; `bootstrap` is the version of
    the CDK's bootstrap, 0 if there is none. `sources` are by address; `secrets`: whether each exists.
    """

    now: datetime
    versions: Versions
    session: Session
    identity: Identity | Unknown
    bootstrap: int | Unknown = 0
    quotas: Mapping[str, Quota] | Unknown = field(default_factory=dict)
    in_use: Mapping[str, int] | Unknown = field(default_factory=dict)
    endpoints: Mapping[str, EndpointState | Unknown] = field(default_factory=dict)
    stacks: Mapping[str, StackState] | Unknown = field(default_factory=dict)
    compute_types: Mapping[str, str] = field(default_factory=dict)
    build_quotas: Mapping[str, Quota] | Unknown = field(default_factory=dict)
    sources: Mapping[str, Source | Unknown] = field(default_factory=dict)
    secrets: Mapping[str, bool | Unknown] = field(default_factory=dict)
