"""What one look at an environment's stacks saw, and what follows from it without more I/O. Pure."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from semif.attempts import Attempt
from semif.builds import Build

STACK_TYPE = "AWS::CloudFormation::Stack"
POOL_TYPE = "Custom::InstancePoolEndpoint"
BUILD_TYPE = "Custom::BuildRun"
BUILD_SUFFIX = "-build-run"  # of the physical id, after the project's name
STARTS = frozenset({"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS", "IMPORT_IN_PROGRESS"})
GOOD_ENDS = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE", "IMPORT_COMPLETE"})
PROVIDER_PREFIX = re.compile(
    r"Received response status \[FAILED\] from custom resource\. Message returned: (?:Error: )?"
)
JS_FRAME = re.compile(r"\s*at .+:\d+:\d+\)?")
FIRST_PARTS = ("artifacts", "builds")  # stacks that are deployed before those of the endpoints
LAST_PARTS = ("observability",)
CANCELLED = ("resource creation cancelled", "resource update cancelled", "resource deletion cancelled")


@dataclass(frozen=True)
class StackEvent:
    """One event of CloudFormation's; `properties` is the resource's properties as JSON text, or ""."""

    id: str
    at: datetime
    logical_id: str
    physical_id: str
    resource_type: str
    status: str
    reason: str = ""
    properties: str = ""

    @property
    def cause(self) -> str:
        """The reason as its author wrote it, without what the Provider framework puts around it."""
        kept = (line for line in self.reason.splitlines() if not JS_FRAME.match(line))
        return PROVIDER_PREFIX.sub("", "\n".join(kept))

    @property
    def failed(self) -> bool:
        """True for a failure of its own, not for a resource cancelled because another one failed."""
        return self.status.endswith("_FAILED") and not self.reason.lower().startswith(CANCELLED)


@dataclass(frozen=True)
class Endpoint:
    """DescribeEndpoint; `status` is SageMaker's, `serving_types` those of a native pool with instances."""

    name: str
    status: str
    failure_reason: str = ""
    serving_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stack:
    """One stack; `events` are those of its last operation, oldest first."""

    name: str
    id: str
    status: str
    reason: str = ""
    outputs: Mapping[str, str] | None = None
    events: tuple[StackEvent, ...] = ()
    endpoint: Endpoint | None = None
    attempts: tuple[Attempt, ...] = ()
    builds: tuple[Build, ...] = ()

    @property
    def in_review(self) -> bool:
        """True while it is only a name with a change set."""
        return self.status == "REVIEW_IN_PROGRESS"

    @property
    def under_way(self) -> bool:
        """True while CloudFormation works on it."""
        return self.status.endswith("_IN_PROGRESS") and not self.in_review

    @property
    def good(self) -> bool:
        """True if the last operation ended as asked."""
        return self.status in GOOD_ENDS

    @property
    def gone(self) -> bool:
        """True once it is deleted."""
        return self.status == "DELETE_COMPLETE"


@dataclass(frozen=True)
class Snapshot:
    """One look: the moment, and the stacks of the environment that exist, in the order of deployment."""

    now: datetime
    stacks: tuple[Stack, ...] = ()


@dataclass(frozen=True)
class Run:
    """A span in which CloudFormation waits for a custom resource: to CREATE, UPDATE or DELETE."""

    verb: str
    started_at: datetime
    ended: bool


@dataclass(frozen=True)
class BuildRun:
    """A custom resource that waits for a build of `project`.

    `content_hashes`: what it wanted in this operation, a rollback's included; empty if that is not known.
    `since`: when the operation first came to it; `last`: its last span. `timeout_minutes`: how long it waits,
    if that is known.
    """

    project: str
    content_hashes: frozenset[str]
    since: datetime
    last: Run
    timeout_minutes: int | None


def stacks_of(env: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names of an environment's stacks, in the order of deployment.

    An environment's name may go on with a hyphen, as a stack's does. But every environment has artifacts.
    """
    known = set(names)
    prefix = f"semif-{env}-"
    longer = tuple(
        name.removesuffix(FIRST_PARTS[0])
        for name in known
        if name.startswith(prefix) and name.endswith(f"-{FIRST_PARTS[0]}") and len(name) > len(prefix) + 9
    )
    mine = [name for name in known if name.startswith(prefix) and not name.startswith(longer)]
    return tuple(sorted(mine, key=lambda name: (_rank(name.removeprefix(prefix)), name)))


def is_endpoint_stack(env: str, name: str) -> bool:
    """Whether an environment's stack is one of an endpoint."""
    return name.removeprefix(f"semif-{env}-") not in {*FIRST_PARTS, *LAST_PARTS}


def _rank(part: str) -> int:
    order = (*FIRST_PARTS, "", *LAST_PARTS)
    return order.index(part) if part in order else len(FIRST_PARTS)


def is_own_event(event: StackEvent, stack_id: str) -> bool:
    """True for an event of the stack itself, not of one of its resources (or of a nested stack)."""
    return event.resource_type == STACK_TYPE and event.physical_id == stack_id


def is_start(event: StackEvent, stack_id: str) -> bool:
    """True if an operation begins here. A rollback continues the operation that failed."""
    return is_own_event(event, stack_id) and event.status in STARTS


def last_operation(events: Sequence[StackEvent], stack_id: str) -> tuple[StackEvent, ...]:
    """Cut the events (oldest first) to those since the last operation began; all of them if none did."""
    starts = [i for i, event in enumerate(events) if is_start(event, stack_id)]
    return tuple(events[starts[-1] :]) if starts else tuple(events)


def first_failure(stack: Stack) -> StackEvent | None:
    """The failure that the others follow from."""
    return next((e for e in stack.events if e.failed and not is_own_event(e, stack.id)), None)


def pool_runs(events: Sequence[StackEvent]) -> list[Run]:
    """The spans of the pool's custom resource in these events (oldest first), at most the last one open."""
    return _runs(event for event in events if event.resource_type == POOL_TYPE)


def build_runs(events: Sequence[StackEvent]) -> list[BuildRun]:
    """The resources that wait for a build in these events (oldest first)."""
    by_resource: dict[str, list[StackEvent]] = {}
    for event in events:
        if event.resource_type == BUILD_TYPE:
            by_resource.setdefault(event.logical_id, []).append(event)
    found = (_build_run(own) for own in by_resource.values())
    return [run for run in found if run is not None]


def _build_run(events: Sequence[StackEvent]) -> BuildRun | None:
    runs = _runs(events)
    wanted = [properties for event in events if (properties := _properties(event))]
    last = wanted[-1] if wanted else {}
    # Not every event has the properties, and a create has no physical id before it ends.
    named = [event.physical_id for event in events if event.physical_id.endswith(BUILD_SUFFIX)]
    project = last.get("ProjectName") or (named[-1].removesuffix(BUILD_SUFFIX) if named else "")
    if not runs or not project:
        return None
    timeout = last.get("TimeoutMinutes", "")
    return BuildRun(
        project=project,
        content_hashes=frozenset(p["ContentHash"] for p in wanted if "ContentHash" in p),
        since=runs[0].started_at,
        last=runs[-1],
        timeout_minutes=int(timeout) if timeout.isdecimal() else None,
    )


def _runs(events: Iterable[StackEvent]) -> list[Run]:
    """The spans of one resource's events (oldest first), at most the last one open."""
    runs: list[Run] = []
    for event in events:
        verb, _, phase = event.status.partition("_")
        if phase == "IN_PROGRESS":
            # A run has a second event of this kind, once the physical id is known.
            if not runs or runs[-1].ended or runs[-1].verb != verb:
                runs.append(Run(verb, event.at, ended=False))
        elif runs and not runs[-1].ended:
            runs[-1] = Run(runs[-1].verb, runs[-1].started_at, ended=True)
    return runs


def pool_endpoint(events: Sequence[StackEvent], default: str) -> str | None:
    """The name of the endpoint that the pool's custom resource stands for; None without such a resource.

    During a create the physical id is not known until the walk is over, so the properties come first.
    """
    pool = [event for event in events if event.resource_type == POOL_TYPE]
    for event in reversed(pool):
        if name := _properties(event).get("EndpointName"):
            return name
    named = [event.physical_id for event in pool if event.physical_id]
    return (named[-1] if named else default) if pool else None


def _properties(event: StackEvent) -> Mapping[str, str]:
    """The string properties of the event's resource."""
    try:
        found = json.loads(event.properties)
    except ValueError:
        return {}
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}
