"""Reads what an environment has in AWS. A look-up that fails leaves an `Unknown` and the others go on."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from semif import inventory as items
from semif.assembly import MODEL_TYPE, EnvironmentPlan
from semif.attempts import MAX_NAME_IN_CONFIGURATION
from semif.aws import Aws, ClientError, describe
from semif.doctor_api import OWNERSHIP_TAG, look
from semif.findings import Unknown
from semif.inventory import Inventory, Kept, Left, Resource, StackFound

PARAMETER_TYPE: Final = "AWS::SSM::Parameter"
ENDPOINT_LOGS: Final = "/aws/sagemaker/Endpoints/"
ABSENT: Final = ("could not find", "does not exist", "not found")
BUILD_KINDS: Final = ("archive", "image-cpu", "image-cuda")


class InventoryReader:
    """Looks at one environment, again and again; it remembers what its stacks had once they are gone."""

    def __init__(self, aws: Aws, plan: EnvironmentPlan) -> None:
        self._aws, self._plan = aws, plan
        self._endpoints = {endpoint.name for endpoint in plan.endpoints}
        self._models: set[str] = set()
        self._builds: set[str] = set()
        self._retained: set[Resource] = set()
        self._stack_names = set(plan.stacks)
        self._unknown: list[tuple[str, Unknown]] = []

    def read(self) -> Inventory:
        """One look at all of it."""
        self._unknown = []
        stacks = self._try("the stacks", "cloudformation:DescribeStacks", self._stacks)
        found = Inventory(tuple(stacks))
        self._endpoints |= set(found.endpoints)
        self._models |= set(found.models)
        self._stack_names |= {stack.name for stack in stacks}
        self._retained |= {r for stack in stacks for r in stack.resources if r.type in items.RETAINED}
        left = [
            *self._try("endpoints", "sagemaker:ListEndpoints and ListTags", self._endpoints_left),
            *self._try(
                "endpoint configurations", "sagemaker:ListEndpointConfigs and ListTags", self._configurations
            ),
            *self._try("models", "sagemaker:DescribeModel", self._models_left),
            *self._try("builds", "codebuild:ListBuilds and BatchGetBuilds", self._builds_left),
            *self._try("network interfaces", "ec2:DescribeNetworkInterfaces", self._interfaces),
        ]
        kept = [
            *self._try("the bucket", "s3:ListAllMyBuckets and ListBucketVersions", self._buckets),
            *self._try("the image repository", "ecr:DescribeRepositories", self._repositories),
            *self._try("keys", "kms:DescribeKey", self._keys),
            *self._try("log groups", "logs:DescribeLogGroups", self._log_groups),
        ]
        # What its stack has is told with the stack.
        told = {resource.physical_id for stack in stacks for resource in stack.resources}
        return Inventory(
            tuple(stacks),
            tuple(kept),
            tuple(item for item in left if not (item.kind in {"endpoint", "model"} and item.name in told)),
            tuple(self._unknown),
        )

    def _try(self, subject: str, action: str, read: Callable[[], Iterable[Any]]) -> list[Any]:
        found = look(action, lambda: list(read()))
        if isinstance(found, Unknown):
            self._unknown.append((subject, found))
            return []
        return found

    # -- stacks ----------------------------------------------------------------------------------------------

    def _stacks(self) -> list[StackFound]:
        cloudformation = self._aws.cloudformation()
        found = []
        for page in cloudformation.get_paginator("describe_stacks").paginate():
            for stack in page["Stacks"]:
                name = stack["StackName"]
                if stack["StackStatus"] == "DELETE_COMPLETE" or not self._plan.owns(name):
                    continue
                resources = _resources(cloudformation, stack["StackId"])
                if name in self._plan.stacks or self._has_parameter(resources):
                    found.append(
                        StackFound(
                            name,
                            stack["StackId"],
                            stack["StackStatus"],
                            bool(stack.get("EnableTerminationProtection")),
                            resources,
                        )
                    )
        order = {name: index for index, name in enumerate(self._plan.stacks)}
        return sorted(found, key=lambda stack: (order.get(stack.name, len(order)), stack.name))

    def _has_parameter(self, resources: Sequence[Resource]) -> bool:
        """Whether a stack that cdk.json no longer has is this environment's: it left a parameter of it."""
        prefix = f"/semif/{self._plan.name}/"
        return any(r.type == PARAMETER_TYPE and r.physical_id.startswith(prefix) for r in resources)

    # -- what lives outside CloudFormation's sight -----------------------------------------------------------

    def _endpoints_left(self) -> list[Left]:
        sagemaker = self._aws.sagemaker()
        pages = sagemaker.get_paginator("list_endpoints").paginate(NameContains=f"semif-{self._plan.name}-")
        names = {endpoint["EndpointName"] for page in pages for endpoint in page["Endpoints"]}
        left = []
        for name in sorted(names | self._endpoints):
            found = _described(sagemaker.describe_endpoint, EndpointName=name)
            if found is None:
                continue
            owner = self._owner(sagemaker, found["EndpointArn"])
            if owner or name in self._endpoints:
                command = f"aws sagemaker delete-endpoint --endpoint-name {name} {self._region}"
                left.append(Left("endpoint", name, owner, command, found["EndpointStatus"]))
                self._endpoints.add(name)
        return left

    def _configurations(self) -> list[Left]:
        sagemaker = self._aws.sagemaker()
        left = {}
        for prefix in {name[:MAX_NAME_IN_CONFIGURATION] for name in self._endpoints}:
            pages = sagemaker.get_paginator("list_endpoint_configs").paginate(NameContains=prefix)
            for item in (config for page in pages for config in page["EndpointConfigs"]):
                name = item["EndpointConfigName"]
                if name.startswith(prefix) and (owner := self._owner(sagemaker, item["EndpointConfigArn"])):
                    command = (
                        f"aws sagemaker delete-endpoint-config --endpoint-config-name {name} {self._region}"
                    )
                    left[name] = Left("endpoint configuration", name, owner, command)
        return [left[name] for name in sorted(left)]

    def _models_left(self) -> list[Left]:
        sagemaker = self._aws.sagemaker()
        return [
            Left(
                "model",
                name,
                self._plan.name,
                f"aws sagemaker delete-model --model-name {name} {self._region}",
            )
            for name in sorted(self._models)
            if _described(sagemaker.describe_model, ModelName=name) is not None
        ]

    def _builds_left(self) -> list[Left]:
        codebuild = self._aws.codebuild()
        projects = {*self._plan.builds, *(f"semif-{self._plan.name}-{kind}" for kind in BUILD_KINDS)}
        # The newest hundred of the account: a build lasts at most 45 minutes.
        ids = codebuild.list_builds(sortOrder="DESCENDING").get("ids", [])
        self._builds |= {build_id for build_id in ids if build_id.partition(":")[0] in projects}
        if not self._builds:
            return []
        found = codebuild.batch_get_builds(ids=sorted(self._builds)[:100])["builds"]
        return [
            Left(
                "build",
                build["id"],
                self._plan.name,
                f"aws codebuild stop-build --id {build['id']} {self._region}",
                build["buildStatus"],
            )
            for build in found
            if build["buildStatus"] == "IN_PROGRESS"
        ]

    def _interfaces(self) -> list[Left]:
        ec2: Any = self._aws.client("ec2")
        names = sorted(self._stack_names | self._endpoints)
        found: dict[str, Any] = {}
        for one in (
            {"Name": "description", "Values": [f"*{name}*" for name in names]},
            {"Name": "tag:aws:cloudformation:stack-name", "Values": names},
        ):
            pages = ec2.get_paginator("describe_network_interfaces").paginate(Filters=[one])
            found |= {i["NetworkInterfaceId"]: i for page in pages for i in page["NetworkInterfaces"]}
        return [
            Left(
                "network interface",
                interface_id,
                self._plan.name,
                f"aws ec2 delete-network-interface --network-interface-id {interface_id} {self._region}",
                f"{item.get('Status', '')}, {item.get('Description', '')}",
            )
            for interface_id, item in sorted(found.items())
        ]

    def _owner(self, sagemaker: Any, arn: str) -> str:
        """The stack of this environment that the tag names; "" for a thing of others'.

        Only stacks known to be of this environment count: `semif-dev-b-x` may be of `dev` or of `dev-b`.
        """
        try:
            tags = sagemaker.list_tags(ResourceArn=arn, MaxResults=50)["Tags"]
        except ClientError as error:
            if describe(error)[0] in {"ResourceNotFound", "ValidationException"}:
                return ""
            raise
        stack_id = next((tag["Value"] for tag in tags if tag["Key"] == OWNERSHIP_TAG), "")
        name = stack_id.split("/")[1] if stack_id.count("/") >= 2 else ""
        return name if name in self._stack_names else ""

    # -- what stays ------------------------------------------------------------------------------------------

    def _buckets(self) -> list[Kept]:
        s3, region = self._aws.s3(), self._plan.region
        prefix = f"semif-{self._plan.name}-artifacts-modelbucket"
        names = {b["Name"] for b in s3.list_buckets()["Buckets"] if b["Name"].startswith(prefix)}
        kept = []
        for name in sorted(names | self._retained_ids("AWS::S3::Bucket")):
            versions = size_bytes = 0
            try:
                for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
                    here = page.get("Versions", [])
                    versions += len(here) + len(page.get("DeleteMarkers", []))
                    size_bytes += sum(version["Size"] for version in here)
            except ClientError as error:
                # Its bucket was removed by hand; another region's environment may have the same name.
                if describe(error)[0] in {
                    "NoSuchBucket",
                    "PermanentRedirect",
                    "IllegalLocationConstraintException",
                }:
                    continue
                raise
            kept.append(items.bucket(name, versions=versions, size_bytes=size_bytes, region=region))
        return kept

    def _repositories(self) -> list[Kept]:
        ecr, region = self._aws.client("ecr"), self._plan.region
        prefix = f"semif-{self._plan.name}-artifacts-imagerepository"
        pages = ecr.get_paginator("describe_repositories").paginate()
        there = {r["repositoryName"] for page in pages for r in page["repositories"]}
        names = {n for n in there if n.startswith(prefix)} | (
            there & self._retained_ids("AWS::ECR::Repository")
        )
        kept = []
        for name in sorted(names):
            images = [
                image
                for page in ecr.get_paginator("describe_images").paginate(repositoryName=name)
                for image in page["imageDetails"]
            ]
            size_bytes = sum(image.get("imageSizeInBytes", 0) for image in images)
            kept.append(items.repository(name, images=len(images), size_bytes=size_bytes, region=region))
        return kept

    def _keys(self) -> list[Kept]:
        kms = self._aws.client("kms")
        kept = []
        for key_id in sorted(self._retained_ids("AWS::KMS::Key")):
            try:
                state = kms.describe_key(KeyId=key_id)["KeyMetadata"]["KeyState"]
            except ClientError as error:
                if describe(error)[0] == "NotFoundException":
                    continue
                raise
            if state != "PendingDeletion":
                kept.append(items.key(key_id, state=state, region=self._plan.region))
        return kept

    def _log_groups(self) -> list[Kept]:
        logs = self._aws.logs()
        kept = []
        for name in sorted(f"{ENDPOINT_LOGS}{endpoint}" for endpoint in self._endpoints):
            pages = logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=name)
            kept += [
                items.log_group(name, size_bytes=group.get("storedBytes", 0), region=self._plan.region)
                for page in pages
                for group in page["logGroups"]
                if group["logGroupName"] == name
            ]
        return kept

    def _retained_ids(self, kind: str) -> set[str]:
        return {r.physical_id for r in self._retained if r.type == kind and r.physical_id}

    @property
    def _region(self) -> str:
        return f"--region {self._plan.region}"


def _resources(cloudformation: Any, stack_id: str) -> tuple[Resource, ...]:
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack_id)
    return tuple(
        Resource(item["ResourceType"], _name(item["ResourceType"], item.get("PhysicalResourceId", "")))
        for page in pages
        for item in page["StackResourceSummaries"]
        if item["ResourceStatus"] != "DELETE_COMPLETE"
    )


def _name(kind: str, physical_id: str) -> str:
    """CloudFormation knows a model by its ARN, SageMaker's calls by the name at its end."""
    return physical_id.rpartition("/")[2] if kind == MODEL_TYPE else physical_id


def _described(call: Callable[..., Any], **arguments: str) -> Any | None:
    try:
        return call(**arguments)
    except ClientError as error:
        if any(text in describe(error)[1].lower() for text in ABSENT):
            return None
        raise
