"""What an environment has in AWS: what goes with its stacks, what stays, what must not be left. Pure."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from semif.assembly import MODEL_TYPE, EnvironmentPlan
from semif.deployment import POOL_TYPE
from semif.doctor_checks import UNPROTECT
from semif.findings import Unknown, not_known
from semif.terminal import bytes_text, printable

# Named one by one before a destruction: what costs money, or what people know by name.
NAMED: Final = {
    POOL_TYPE: "endpoint",
    MODEL_TYPE: "model",
    "AWS::IAM::Role": "role",
    "AWS::CodeBuild::Project": "build project",
}
RETAINED: Final = frozenset({"AWS::S3::Bucket", "AWS::ECR::Repository", "AWS::KMS::Key"})
KEY_DAYS: Final = 30


@dataclass(frozen=True)
class Resource:
    """One resource of a stack, by CloudFormation's type."""

    type: str
    physical_id: str


@dataclass(frozen=True)
class StackFound:
    """One stack of the environment that exists."""

    name: str
    id: str
    status: str
    protected: bool
    resources: tuple[Resource, ...] = ()


@dataclass(frozen=True)
class Kept:
    """Something that stays. `kind`: bucket, repository, log group, key; `content` says how much is in it."""

    kind: str
    name: str
    content: str
    command: str


@dataclass(frozen=True)
class Left:
    """Something of the environment beside its stacks: an endpoint, a configuration, a build, an interface.

    `owner` is the stack that its tag names, "" where it has none; `status` is its service's word.
    """

    kind: str
    name: str
    owner: str
    command: str
    status: str = ""

    @property
    def text(self) -> str:
        """How it is named to people."""
        return printable(f"{self.kind} {self.name}{f' ({self.status})' if self.status else ''}")


@dataclass(frozen=True)
class Inventory:
    """One look. `left` holds what lives outside CloudFormation's sight; `unknown` which look-ups failed."""

    stacks: tuple[StackFound, ...] = ()
    kept: tuple[Kept, ...] = ()
    left: tuple[Left, ...] = ()
    unknown: tuple[tuple[str, Unknown], ...] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the stacks made."""
        return self._ids(MODEL_TYPE)

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints that the stacks made."""
        return self._ids(POOL_TYPE)

    def _ids(self, kind: str) -> tuple[str, ...]:
        found = (r for stack in self.stacks for r in stack.resources if r.type == kind)
        return tuple(resource.physical_id for resource in found if resource.physical_id)


def bucket(name: str, *, versions: int, size_bytes: int, region: str) -> Kept:
    """A bucket with all versions of its objects; the AWS CLI has no single command that empties one."""
    code = (
        f'import boto3; b = boto3.resource("s3", region_name="{region}").Bucket("{name}");'
        " b.object_versions.delete(); b.delete()"
    )
    content = f"{versions} object versions, {bytes_text(size_bytes)}"
    return Kept("bucket", name, content, f"python3 -c {shlex.quote(code)}")


def repository(name: str, *, images: int, size_bytes: int, region: str) -> Kept:
    """An image repository."""
    command = f"aws ecr delete-repository --repository-name {name} --force --region {region}"
    return Kept("repository", name, f"{images} images, {bytes_text(size_bytes)}", command)


def log_group(name: str, *, size_bytes: int, region: str) -> Kept:
    """A log group that no stack has."""
    command = f"aws logs delete-log-group --log-group-name {name} --region {region}"
    return Kept("log group", name, bytes_text(size_bytes), command)


def key(key_id: str, *, state: str, region: str) -> Kept:
    """A KMS key; AWS deletes keys only after a waiting time."""
    command = f"aws kms schedule-key-deletion --key-id {key_id} --pending-window-in-days {KEY_DAYS}"
    return Kept("key", key_id, state, f"{command} --region {region}")


def going_lines(inventory: Inventory) -> list[str]:
    """What `cdk destroy` takes away."""
    if not inventory.stacks:
        return ["goes: no stack of this environment exists"]
    lines = ["goes:"]
    for stack in inventory.stacks:
        lines.append(f"  {stack.name} ({stack.status}): {len(stack.resources)} resources")
        for kind, word in NAMED.items():
            names = [r.physical_id for r in stack.resources if r.type == kind and r.physical_id]
            lines += [f"    {word} {printable(name)}" for name in names]
        others = Counter(r.type for r in stack.resources if r.type not in {*NAMED, *RETAINED})
        if others:
            lines.append(f"    {', '.join(f'{count} × {kind}' for kind, count in sorted(others.items()))}")
    lines += [f"  {item.text}" for item in inventory.left if item.owner]
    return lines


def staying_lines(inventory: Inventory, *, purge: bool) -> list[str]:
    """What stays after it, with the one command that removes each."""
    strange = [item for item in inventory.left if not item.owner]
    if not inventory.kept and not strange:
        return ["stays: nothing"]
    lines = ["goes too (--purge):" if purge else "stays:"] if inventory.kept else []
    for kept in inventory.kept:
        lines.append(f"  {kept.kind} {kept.name} ({kept.content})")
        if not purge:
            lines.append(f"    remove it: {kept.command}")
    if strange:
        lines.append("stays, for no stack of this environment made it:")
        for item in strange:
            lines += [f"  {item.text}", f"    remove it: {item.command}"]
    return lines


def protection_lines(plan: EnvironmentPlan, stacks: Sequence[StackFound]) -> list[str]:
    """Why a protected environment is not destroyed, and what lifts that; empty where nothing is protected."""
    protected = [stack for stack in stacks if stack.protected]
    if not protected:
        return []
    names = ", ".join(stack.name for stack in protected)
    return [
        f"error: protected: {plan.name} is protected from deletion ({names}); nothing was touched",
        f'next: set "protect": false in cdk.json and deploy (semif deploy {plan.name}), or lift it by hand:',
        *(f"  {UNPROTECT} --stack-name {stack.name} --region {plan.region}" for stack in protected),
    ]


def busy_lines(plan: EnvironmentPlan, stacks: Sequence[StackFound]) -> list[str]:
    """Why an environment is not destroyed while CloudFormation works on it; empty where it does not."""
    busy = [s for s in stacks if s.status.endswith("_IN_PROGRESS") and s.status != "REVIEW_IN_PROGRESS"]
    if not busy:
        return []
    names = ", ".join(f"{stack.name} is {stack.status}" for stack in busy)
    return [
        f"error: under_way: {names}; nothing was touched",
        f"next: follow it to its end (semif watch {plan.name}), then destroy",
    ]


def remaining_lines(inventory: Inventory) -> list[str]:
    """What a destruction was to take away and did not; empty when all is gone."""
    lines = [f"left: {stack.name} ({stack.status})" for stack in inventory.stacks]
    for item in inventory.left:
        if item.owner:
            lines += [f"left: {item.text}", f"  remove it: {item.command}"]
    return lines


def unknown_lines(inventory: Inventory) -> list[str]:
    """The look-ups that failed."""
    return [
        f"{finding.level.value}: {finding.text}"
        for subject, unknown in inventory.unknown
        for finding in not_known(subject, unknown)
    ]
