"""Who calls: what the local IAM and STS know about an access key. The reach into moto's state is here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moto.core.utils import utcnow
from moto.iam.models import get_account_id_from, iam_backends
from moto.sts.models import sts_backends
from moto.utilities.utils import PARTITION_NAMES

from localaws.access.policy import Document
from localaws.clients import SERVICE_KEY


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller. `arn` is what AWS calls the user, `principal` the ARN of the user or role behind it.

    An administrator is whoever the local IAM has no user or role for: it may do everything. `policies` are
    the identity's own; each of `limits` (boundary, session policy) must allow a request too. `secret` is
    None where any secret is taken.
    """

    account: str
    arn: str
    principal: str
    administrator: bool = False
    service: bool = False
    policies: tuple[Document, ...] = ()
    limits: tuple[tuple[Document, ...], ...] = ()
    secret: str | None = None
    session_token: str | None = None
    expiry: datetime | None = None

    @property
    def expired(self) -> bool:
        """Whether the credentials are over."""
        return self.expiry is not None and utcnow() > self.expiry


def identify(access_key: str) -> Identity:
    """Return who has an access key; an unknown one is an administrator of moto's default account."""
    account = get_account_id_from(access_key)
    for partition in PARTITION_NAMES:
        session = sts_backends[account][partition].get_assumed_role_from_access_key(access_key)
        if session is not None:
            return _session(session, partition)
        iam: Any = iam_backends[account][partition]
        key = iam.access_keys.get(access_key)
        user = iam.users.get(key.user_name) if key is not None else None
        if key is not None and user is not None:
            groups = [group for group in iam.groups.values() if user in group.users]
            policies = tuple(document for owner in (user, *groups) for document in _policies(owner))
            return Identity(account, user.arn, user.arn, policies=policies, secret=key.secret_access_key)
    root = f"arn:aws:iam::{account}:root"
    return Identity(account, root, root, administrator=True, service=access_key == SERVICE_KEY)


def _session(session: Any, partition: str) -> Identity:
    """The identity of an assumed role; one of a role that does not exist is an administrator's."""
    role = find_role(session.role_arn)
    limits = []
    if role is not None and role.permissions_boundary_arn:
        policy = iam_backends[session.account_id][partition].managed_policies.get(
            role.permissions_boundary_arn
        )
        limits.append(tuple(_managed(policy)) if policy is not None else ())
    if role is not None and session.policy:
        limits.append((json.loads(session.policy),))
    return Identity(
        account=session.account_id,
        arn=session.arn,
        principal=session.role_arn,
        administrator=role is None,
        policies=tuple(_policies(role)) if role is not None else (),
        limits=tuple(limits),
        secret=session.secret_access_key,
        session_token=session.session_token,
        expiry=session.expiration,
    )


def find_role(arn: str) -> Any:
    """Return moto's role with this ARN, None if there is none."""
    parts = arn.split(":")
    if len(parts) < 6 or parts[2] != "iam" or parts[1] not in PARTITION_NAMES:
        return None
    roles: Mapping[str, Any] = iam_backends[parts[4]][parts[1]].roles
    return next((role for role in list(roles.values()) if role.arn == arn), None)


def trust_of(role: Any) -> Document:
    """Return a role's trust policy."""
    document: Document = json.loads(role.assume_role_policy_document)
    return document


def _policies(owner: Any) -> Iterator[Document]:
    for text in list(owner.policies.values()):
        yield json.loads(text)
    for policy in list(owner.managed_policies.values()):
        yield from _managed(policy)


def _managed(policy: Any) -> Iterator[Document]:
    for version in policy.versions:
        if version.is_default:
            yield json.loads(version.document)
