"""sts:AssumeRole: a role's trust policy, and the caller's own policies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from localaws.access.conditions import texts
from localaws.access.identities import Identity
from localaws.access.policy import Decision, Document, Request, decide

_ACCOUNT_ARN = re.compile(r"arn:[a-z-]+:iam::(\d{12}):root")
ACTION = "sts:AssumeRole"


def refusal(
    caller: Identity, role_arn: str, trust: Document | None, context: Mapping[str, str]
) -> str | None:
    """Return AWS's text that refuses to let a caller assume a role, None if it may.

    `trust` is None for a role that does not exist. The administrator of the role's own account needs none.

    Raises:
        UnsupportedPolicyError: a policy cannot be evaluated.
    """
    same_account = caller.account == role_arn.split(":")[4]
    if caller.service or (caller.administrator and (trust is None or same_account)):
        return None
    refused = f"User: {caller.arn} is not authorized to perform: {ACTION} on resource: {role_arn}"
    if trust is None:
        return refused
    request = Request(ACTION, role_arn, context)
    trusted = decide([trust], request, lambda statement: _is_principal(statement, caller, exactly=False))
    if trusted is Decision.DENIED:
        return f"{refused} with an explicit deny in the role trust policy"
    own = [decide(policies, request) for policies in (caller.policies, *caller.limits)]
    if Decision.DENIED in own:
        return f"{refused} with an explicit deny in an identity-based policy"
    # In one account, a trust that names the caller itself is enough; else both sides must allow.
    named = decide([trust], request, lambda statement: _is_principal(statement, caller, exactly=True))
    enough = caller.administrator or (same_account and named is Decision.ALLOWED)
    allowed = trusted is Decision.ALLOWED and (enough or set(own) == {Decision.ALLOWED})
    return None if allowed else refused


def _is_principal(statement: Mapping[str, Any], caller: Identity, *, exactly: bool) -> bool:
    """Whether a statement's Principal is the caller: by its ARN, and unless `exactly`, its account or all."""
    if "NotPrincipal" in statement:
        return not _matches(statement["NotPrincipal"], caller, exactly=exactly)
    return _matches(statement.get("Principal", {}), caller, exactly=exactly)


def _matches(principal: Any, caller: Identity, *, exactly: bool) -> bool:
    if principal == "*":
        return not exactly
    for named in texts(principal.get("AWS", [])):
        if named in {caller.arn, caller.principal}:
            return True
        account = _ACCOUNT_ARN.fullmatch(named)
        if not exactly and (named in {"*", caller.account} or (account and account[1] == caller.account)):
            return True
    return False
