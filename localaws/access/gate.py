"""The gate before AssumeRole and the invocations: who calls, with which condition keys, and may they."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from localaws.access import trust
from localaws.access.bearer_token import Bearer, read_token
from localaws.access.conditions import UnsupportedPolicyError
from localaws.access.identities import Identity, find_role, identify, trust_of
from localaws.access.organizations import Organizations
from localaws.access.policy import Decision, Request, decide
from localaws.access.source_vpce import SOURCE_VPCE_HEADER
from localaws.protocol import HttpAnswer, HttpRequest, ServiceError

_STS_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"


_ACCESS_KEY = re.compile(r"Credential=([^/,\s]+)/")


def access_key_of(request: HttpRequest) -> str:
    """Return the access key that signed a request, empty if none did."""
    found = _ACCESS_KEY.search(request.headers.get("Authorization", ""))
    return found[1] if found else ""


class Gate:
    """Access of one local AWS."""

    def __init__(self) -> None:
        self.organizations = Organizations()
        self._assumed: set[str] = set()

    def assume_role(self, region: str, request: HttpRequest) -> HttpAnswer | None:
        """Refuse an AssumeRole that the role's trust or the caller's policies do not allow, else None."""
        form = dict(parse_qsl((request.body or request.query.encode()).decode("utf-8", "replace")))
        role_arn = form.get("RoleArn", "")
        if form.get("Action") != "AssumeRole" or len(role_arn.split(":")) < 6:
            return None
        caller = self._identify(access_key_of(request))
        context = self._context(caller, region, request)
        for key, parameter in (("sts:ExternalId", "ExternalId"), ("sts:RoleSessionName", "RoleSessionName")):
            if parameter in form:
                context[key] = form[parameter]
        role = find_role(role_arn)
        if role is not None:
            self._assumed.add(role_arn)
        try:
            refused = trust.refusal(caller, role_arn, trust_of(role) if role is not None else None, context)
        except UnsupportedPolicyError as error:
            return _sts_error("UnsupportedPolicy", str(error), 501)
        return _sts_error("AccessDenied", refused, 403) if refused else None

    def bearer(self, token: str) -> Bearer:
        """Verify a bearer token; a TokenError says what is wrong with it."""
        return read_token(token, self._identify, datetime.now(UTC))

    def allow_invocation(
        self,
        access_key: str,
        region: str,
        request: HttpRequest,
        *,
        actions: Mapping[str, str],
    ) -> None:
        """Let an invocation pass whose caller may do all `actions` (action to resource).

        Raises:
            ServiceError: AccessDeniedException with AWS's text, or a policy that is not evaluated.
        """
        caller = self._identify(access_key)
        if caller.administrator:
            return
        context = self._context(caller, region, request)
        for action, resource in actions.items():
            try:
                refused = _refusal(caller, Request(action, resource, context))
            except UnsupportedPolicyError as error:
                raise ServiceError("UnsupportedPolicy", str(error), 501) from error
            if refused:
                raise ServiceError("AccessDeniedException", refused, 403)

    def _identify(self, access_key: str) -> Identity:
        """Who has a key. The session of a role that was deleted since may do nothing any more."""
        found = identify(access_key)
        if found.administrator and found.principal in self._assumed:
            return replace(found, administrator=False)
        return found

    def _context(self, caller: Identity, region: str, request: HttpRequest) -> dict[str, str]:
        """The condition keys that the local AWS knows; any other is absent from every request."""
        found = {
            "aws:PrincipalArn": caller.principal,
            "aws:PrincipalAccount": caller.account,
            "aws:PrincipalOrgID": self.organizations.of(caller.account),
            "aws:RequestedRegion": region,
            "aws:SecureTransport": "true",
            "aws:SourceVpce": request.headers.get(SOURCE_VPCE_HEADER),
            "aws:ViaAWSService": "false",
        }
        return {key: value for key, value in found.items() if value is not None}


def _refusal(caller: Identity, request: Request) -> str | None:
    refused = (
        f"User: {caller.arn} is not authorized to perform: {request.action} on resource: {request.resource}"
    )
    decisions = [decide(policies, request) for policies in (caller.policies, *caller.limits)]
    if Decision.DENIED in decisions:
        return f"{refused} with an explicit deny in an identity-based policy"
    if decisions[0] is Decision.UNSAID:
        return f"{refused} because no identity-based policy allows the {request.action} action"
    if Decision.UNSAID in decisions:
        return (
            f"{refused} because no permissions boundary or session policy allows the {request.action} action"
        )
    return None


def _sts_error(code: str, message: str, status: int) -> HttpAnswer:
    body = (
        f'<ErrorResponse xmlns="{_STS_NAMESPACE}"><Error><Type>Sender</Type><Code>{code}</Code>'
        f"<Message>{escape(message)}</Message></Error></ErrorResponse>"
    )
    return HttpAnswer(status, body.encode(), {"Content-Type": "text/xml"})
