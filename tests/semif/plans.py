"""semif.json of an environment, and facts in which nothing is wrong: tests change what they are about."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from semif.assembly import EnvironmentPlan, parse_plan
from semif.doctor_facts import EndpointState, Facts, Identity, Quota, Session, StackState, Versions

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
ACCOUNT = "123456789012"
REGION = "eu-central-1"
STACK_ID = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/semif-dev-decisions/1"
HUB = {"kind": "hub", "url": "https://hub.example/o/m/resolve/r/m.gguf", "hub": None, "token_secret": None}


def endpoint(key: str = "decisions", *types: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": f"semif-dev-{key}",
        "stack": f"semif-dev-{key}",
        "engine": "semif",
        "instance_count": 1,
        "update": "all-at-once",
        "strategy": "native",
        "rounds": [list(types or ("ml.g6e.xlarge", "ml.g5.2xlarge"))],
        "last_resort": [],
        "left_out": {},
        "worst_case_s": 1620,
        "hourly_usd": {},
        **changes,
    }


def environment(endpoints: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    endpoints = endpoints or {"decisions": endpoint()}
    return {
        "account": None,
        "region": REGION,
        "protect": False,
        "stacks": ["semif-dev-artifacts", "semif-dev-builds", *(f"semif-dev-{key}" for key in endpoints)],
        "bootstrap_version": 6,
        "tags": {},
        "builds": ["semif-dev-archive", "semif-dev-image-cuda"],
        "model": HUB,
        "endpoints": dict(endpoints),
        **changes,
    }


def plan(endpoints: Mapping[str, Any] | None = None, **changes: Any) -> EnvironmentPlan:
    return parse_plan("dev", environment(endpoints, **changes))


def quota(instance_type: str, value: float) -> Quota:
    return Quota(f"{instance_type} for endpoint usage", f"L-{instance_type[3:]}", value)


def quotas(**values: float) -> dict[str, Quota]:
    """By type, written as `g6e_xlarge=2`."""
    named = {f"ml.{name.replace('_', '.')}": value for name, value in values.items()}
    return {name: quota(name, value) for name, value in named.items()}


def facts(**changes: Any) -> Facts:
    return Facts(
        **{
            "now": NOW,
            "versions": Versions("2.1148.1", "2.1148.1", "v24.1.0", 18),
            "session": Session(temporary=False, renewable=False, expires_at=None),
            "identity": Identity(ACCOUNT, f"arn:aws:iam::{ACCOUNT}:user/me"),
            "bootstrap": 28,
            "quotas": quotas(g6e_xlarge=4, g5_2xlarge=4),
            "compute_types": {
                "semif-dev-archive": "BUILD_GENERAL1_SMALL",
                "semif-dev-image-cuda": "BUILD_GENERAL1_MEDIUM",
            },
            **changes,
        }
    )


def serving(**fleet: int) -> dict[str, Any]:
    """The facts of a stack that exists with its endpoint, and whose fleet this deployment changes."""
    by_type = {f"ml.{name.replace('_', '.')}": count for name, count in fleet.items()}
    return {
        "endpoints": {"decisions": EndpointState("InService", STACK_ID, by_type)},
        "in_use": by_type,
        "stacks": {"semif-dev-decisions": StackState(STACK_ID, "CREATE_COMPLETE", False, new_fleet=True)},
    }
