"""Who else may invoke an endpoint: a role that others take on, and a policy to attach in the same account."""

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.callers_settings import ANYONE, CallersSettings

MAX_ROLE_NAME_LENGTH: Final = 64


class InvokeAccess(Construct):
    """A role and a policy that allow invoking one endpoint and nothing else.

    `openai_path` adds what the runtime's OpenAI-style address asks for. The role's name is fixed, so that
    another account can name it before it exists; it has the region in it, since roles are global.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        endpoint_name: str,
        region: str,
        callers: CallersSettings,
        openai_path: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        fixed_name = f"{name}-invoke-{region}"
        if len(fixed_name) > MAX_ROLE_NAME_LENGTH:
            raise AssertionError(f"bug: {fixed_name} is longer than a role's name may be")
        self.policy = iam.ManagedPolicy(
            self,
            "Policy",
            managed_policy_name=fixed_name,
            # Not the endpoint's name: another description would be another policy, of a name that is taken.
            description=f"Invoke the endpoint of the stack {name}",
            statements=_permissions(cdk.Stack.of(self), endpoint_name, callers, openai_path=openai_path),
        )
        self.role = iam.Role(
            self,
            "Role",
            role_name=fixed_name,
            description=f"Invoke the endpoint {endpoint_name}",
            assumed_by=_trusted(callers),
            managed_policies=[self.policy],
        )

    @property
    def outputs(self) -> dict[str, str]:
        """The ARNs, by the names of the stack's outputs."""
        return {
            "InvokeRoleArn": self.role.role_arn,
            "InvokePolicyArn": self.policy.managed_policy_arn,
        }


def _permissions(
    stack: cdk.Stack, endpoint_name: str, callers: CallersSettings, *, openai_path: bool
) -> list[iam.PolicyStatement]:
    endpoint = stack.format_arn(service="sagemaker", resource="endpoint", resource_name=endpoint_name)
    conditions = (
        {"StringEquals": {"aws:SourceVpce": list(callers.vpc_endpoints)}} if callers.vpc_endpoints else None
    )
    statements = [
        iam.PolicyStatement(
            sid="Invoke",
            actions=["sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpointWithResponseStream"],
            resources=[endpoint],
            conditions=conditions,
        )
    ]
    if openai_path:
        # It knows no resources; what a bearer may call, the statement above says.
        statements.append(
            iam.PolicyStatement(
                sid="CallWithBearerToken",
                actions=["sagemaker:CallWithBearerToken"],
                resources=["*"],
                conditions=conditions,
            )
        )
    return statements


def _trusted(callers: CallersSettings) -> iam.IPrincipal:
    equals = {
        key: value
        for key, value in (
            ("sts:ExternalId", callers.external_id),
            ("aws:PrincipalOrgID", callers.organization_id),
        )
        if value is not None
    }
    principals = iam.CompositePrincipal(*(_principal(principal) for principal in callers.principals))
    return principals.with_conditions({"StringEquals": equals}) if equals else principals


def _principal(text: str) -> iam.PrincipalBase:
    if text == ANYONE:
        return iam.AnyPrincipal()
    return iam.AccountPrincipal(text) if text.isdigit() else iam.ArnPrincipal(text)
