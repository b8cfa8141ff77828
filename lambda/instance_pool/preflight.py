"""Which instance types the account's quotas rule out, before anything is touched. Pure.

A quota counts the instances of one type over all endpoints of the account and region. A blue/green update
needs the new fleet beside the old one; a rolling one only its batch; `recreate` gives the old one back first.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

SERVICE_CODE: Final = "sagemaker"
_SUFFIX: Final = " for endpoint usage"
_REASON_LIMIT: Final = 3


@dataclass(frozen=True)
class Limit:
    """One type's quota. `in_use`: instances of all endpoints, `own` of them ours; None if not counted."""

    name: str
    code: str
    quota: float
    in_use: int | None = None
    own: int = 0


Limits = Mapping[str, Limit]
"""By instance type. A type that is absent is not offered in the region."""


@dataclass(frozen=True)
class Skip:
    """Why a type is not tried; `ask_for` is the quota that would do, None where no quota helps."""

    instance_type: str
    why: str
    ask_for: int | None = None
    code: str = ""

    @property
    def command(self) -> str:
        """The command that asks for the quota; "" where none helps."""
        if self.ask_for is None or not self.code:
            return ""
        return (
            f"aws service-quotas request-service-quota-increase --service-code {SERVICE_CODE}"
            f" --quota-code {self.code} --desired-value {self.ask_for}"
        )

    @property
    def advice(self) -> str:
        """The one thing to do."""
        if not self.command:
            return f"Remove {self.instance_type} from the endpoint's pool in cdk.json."
        return f"Ask for {self.ask_for}: {self.command}"

    @property
    def text(self) -> str:
        """The finding: subject, fact, next step."""
        return f"{self.instance_type} skipped: {self.why}. {self.advice}"


def quota_name(instance_type: str) -> str:
    """Name of the quota that Service Quotas lists for a type."""
    return f"{instance_type}{_SUFFIX}"


def quota_type(name: str) -> str | None:
    """The instance type that a quota of this name is for; None for a quota of something else."""
    return name.removesuffix(_SUFFIX) if name.startswith("ml.") and name.endswith(_SUFFIX) else None


def preflight(
    types: Iterable[str],
    limits: Limits | None,
    *,
    needed: int,
    creating: bool,
    update: str = "all-at-once",
    batch_percent: int = 100,
) -> dict[str, Skip]:
    """The types that cannot be had, with the reason; no limits (None) rule nothing out.

    `needed`: instances of the new fleet. `creating`: nothing of ours serves that would have to stay.
    """
    if limits is None:
        return {}
    skips = {}
    for instance_type in types:
        limit = limits.get(instance_type)
        if limit is None:
            why = f'not offered in this region: Service Quotas lists no "{quota_name(instance_type)}"'
            skips[instance_type] = Skip(instance_type, why)
        elif skip := _over(instance_type, limit, needed, "create" if creating else update, batch_percent):
            future = max(skip.ask_for or 0, _target(limit, needed, update, batch_percent))
            skips[instance_type] = Skip(instance_type, skip.why, future, limit.code)
    return skips


def refusal(skips: Mapping[str, Skip]) -> tuple[str, str]:
    """Reason and advice of a walk that has no type left to try."""
    findings = [f"{skip.instance_type}: {skip.why}" for skip in skips.values()]
    told = "; ".join(findings[:_REASON_LIMIT])
    more = f"; {len(findings) - _REASON_LIMIT} more" if len(findings) > _REASON_LIMIT else ""
    helpful = next((skip for skip in skips.values() if skip.command), None)
    advice = helpful.advice if helpful else "Choose instance types that this region offers."
    return f"The account's quotas leave no instance type of the pool. {told}{more}.", advice


def skipped_text(skips: Mapping[str, Skip]) -> str:
    """All skipped types in a line, such as `ml.g6e.xlarge: quota is 0 / …`; a tag allows no semicolon."""
    return " / ".join(f"{skip.instance_type}: {_short(skip.why)}" for skip in skips.values())


def _over(instance_type: str, limit: Limit, needed: int, change: str, batch_percent: int) -> Skip | None:
    """The type's skip if its quota is less than the most instances that the change has at one time."""
    own = limit.own
    # Use that could not be counted is at least our own.
    in_use = own if limit.in_use is None else max(limit.in_use, own)
    extra = {
        "recreate": needed - own,
        "rolling": max(math.ceil(needed * batch_percent / 100), needed - own),
    }.get(change, needed)
    if limit.quota >= in_use + extra:
        return None
    quota = f'quota "{limit.name}" is {limit.quota:g}'
    if limit.quota > 0:
        used = f", {in_use} in use" if limit.in_use is not None or own else ""
        beside = " beside the fleet that serves" if own and change != "recreate" else ""
        why = f"{quota}{used}, {max(extra, 0)} more needed{beside}"
    else:
        why = quota
    return Skip(instance_type, why, in_use + extra, limit.code)


def _target(limit: Limit, needed: int, update: str, batch_percent: int) -> int:
    """The quota that a later update of the same fleet needs too: asking twice costs days."""
    others = max((limit.in_use or 0) - limit.own, 0)
    surge = {"recreate": 0, "rolling": math.ceil(needed * batch_percent / 100)}.get(update, needed)
    return others + needed + surge


def _short(why: str) -> str:
    """Without the quota's name, which the type before it says: a tag holds 256 characters."""
    return re.sub(r'quota "[^"]*"', "quota", why.partition(": ")[0])
