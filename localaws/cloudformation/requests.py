"""From the parameters of an API request to the target it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from botocore.exceptions import ClientError

from localaws.clients import Clients
from localaws.cloudformation.custom_resource import is_custom
from localaws.cloudformation.evaluation import evaluation_of
from localaws.cloudformation.graph import creation_order, dependencies
from localaws.cloudformation.parameters import ParameterValues, resolve_parameters
from localaws.cloudformation.region import Region, tags_of, validation_error
from localaws.cloudformation.resources.registry import RESOURCE_TYPES
from localaws.cloudformation.schema import resource_schema
from localaws.cloudformation.stack import Stack, Target, new_stack
from localaws.cloudformation.template import Document, TemplateError, parse_template
from localaws.protocol import ServiceError

_NAMED = {
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
}
_IAM = _NAMED.keys() | {"AWS::IAM::AccessKey", "AWS::IAM::InstanceProfile", "AWS::IAM::Policy"}


def template_text(params: Mapping[str, Any], region: Region, clients: Clients, stack: Stack | None) -> str:
    """Return the template that a request names: its body, its URL or the stack's present one."""
    if params.get("UsePreviousTemplate"):
        if stack is None or stack.target is None:
            raise validation_error("UsePreviousTemplate needs a stack that has a template")
        return stack.target.text
    if "TemplateBody" in params:
        return str(params["TemplateBody"])
    if "TemplateURL" not in params:
        raise validation_error("Either Template URL or Template Body must be specified.")
    bucket, key = bucket_and_key(params["TemplateURL"])
    try:
        s3 = clients.get("s3", region.scope)
        return str(s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode())
    except ClientError as error:
        message = error.response.get("Error", {}).get("Message")
        raise validation_error(f"S3 error: {message} ({params['TemplateURL']})") from error


def bucket_and_key(url: str) -> tuple[str, str]:
    """Read an S3 URL: path style at any host, or virtual-hosted at Amazon's."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", unquote(parts.path.lstrip("/"))
    label = host.split(".s3", 1)[0]
    if host.endswith(".amazonaws.com") and not host.startswith("s3") and ".s3" in host:
        return label, path
    bucket, _, key = path.partition("/")
    if not bucket or not key:
        raise validation_error(
            f"TemplateURL must reference a valid S3 object to which you have access: {url}"
        )
    return bucket, key


def target_of(params: Mapping[str, Any], region: Region, clients: Clients, stack: Stack | None) -> Target:
    """Read the target of a CreateChangeSet, CreateStack or UpdateStack; raises ServiceError."""
    text = template_text(params, region, clients, stack)
    previous = stack.target if stack else None
    try:
        template = parse_template(text)
        check_types(template)
        resources = template["Resources"]
        creation_order({name: dependencies(item, resources.keys()) for name, item in resources.items()})
        values = resolve_parameters(
            template,
            params.get("Parameters", []),
            previous.parameters.given if previous else {},
            region.read_parameter,
        )
    except TemplateError as error:
        raise validation_error(str(error)) from error
    check_capabilities(template, params.get("Capabilities", []))
    target = Target(
        text,
        template,
        values,
        tags_of(params) if "Tags" in params or previous is None else dict(previous.tags),
        params.get("RoleARN") or (previous.role_arn if previous else None),
        tuple(params.get("NotificationARNs", previous.notification_arns if previous else ())),
        tuple(params.get("Capabilities", ())),
    )
    check_rules(stack or new_stack(params["StackName"], region.scope, ""), target, region)
    return target


def check_rules(stack: Stack, target: Target, region: Region) -> None:
    """Raise ServiceError for a rule of the template, such as CheckBootstrapVersion, that does not hold."""
    evaluation = evaluation_of(stack, target, region)
    for name, rule in target.template.get("Rules", {}).items():
        try:
            if "RuleCondition" in rule and evaluation.value(rule["RuleCondition"]) is False:
                continue
            broken = [item for item in rule["Assertions"] if evaluation.value(item["Assert"]) is False]
        except TemplateError as error:
            raise validation_error(f"Template error in rule {name}: {error}") from error
        for item in broken:
            described = item.get("AssertDescription", f"an assertion of {name} does not hold")
            raise validation_error(f"Template validation error: {described}")


def check_types(template: Document) -> None:
    """Raise TemplateError for resource types that AWS, or this local AWS, does not have."""
    types = {definition["Type"] for definition in template["Resources"].values()}
    unknown = sorted(name for name in types if name not in RESOURCE_TYPES and not is_custom(name))
    invented = [name for name in unknown if resource_schema(name) is None]
    if invented:
        raise TemplateError(f"Template format error: Unrecognized resource types: [{', '.join(invented)}]")
    if unknown:
        raise TemplateError(
            f"The local AWS does not have these resource types: [{', '.join(unknown)}];"
            " add them to localaws/cloudformation/resources"
        )


def required_capabilities(template: Document) -> list[str]:
    """Return the capability that a template needs: none, CAPABILITY_IAM or CAPABILITY_NAMED_IAM."""
    definitions = [item for item in template["Resources"].values() if item["Type"] in _IAM]
    if any(_NAMED.get(item["Type"]) in item.get("Properties", {}) for item in definitions):
        return ["CAPABILITY_NAMED_IAM"]
    return ["CAPABILITY_IAM"] if definitions else []


def check_capabilities(template: Document, given: list[str]) -> None:
    """Raise ServiceError for a missing acknowledgement of IAM resources."""
    needed = required_capabilities(template)
    if needed and not {*needed, "CAPABILITY_NAMED_IAM"} & set(given):
        raise ServiceError("InsufficientCapabilitiesException", f"Requires capabilities : [{needed[0]}]")


def same_target(old: Target, new: Target) -> bool:
    """Tell whether an update would have nothing to do, as CloudFormation sees it."""
    values: tuple[ParameterValues, ParameterValues] = (old.parameters, new.parameters)
    return (
        old.template == new.template
        and values[0].resolved == values[1].resolved
        and dict(old.tags) == dict(new.tags)
        and old.notification_arns == new.notification_arns
    )
