"""One environment: its stacks, wired."""

import aws_cdk as cdk
from constructs import Construct

from stacks.artifacts import ArtifactsStack
from stacks.build import BuildStack
from stacks.endpoint_stack import EndpointStack
from stacks.semif_endpoint import DecisionsStack
from stacks.settings import EnvironmentSettings


class EnvironmentStage(cdk.Stage):
    """The stacks of one account and region; the stage's id is the environment's name."""

    def __init__(self, scope: Construct, settings: EnvironmentSettings) -> None:
        super().__init__(
            scope, settings.name, env=cdk.Environment(account=settings.account, region=settings.region)
        )
        self.artifacts = ArtifactsStack(
            self,
            "artifacts",
            environment_name=settings.name,
            region=settings.region,
            protect=settings.protect,
        )
        self.endpoints: dict[str, EndpointStack] = {
            endpoint.key: DecisionsStack(
                self, endpoint.key, environment=settings, settings=endpoint, artifacts=self.artifacts
            )
            for endpoint in settings.endpoints
        }
        if settings.built_models or settings.build.images:
            builds = BuildStack(self, "builds", environment=settings, artifacts=self.artifacts)
            for endpoint in settings.endpoints:
                if any(c.built_model or c.built_flavour for c in endpoint.containers):
                    # No reference says so: the projects are known by their names.
                    self.endpoints[endpoint.key].add_stack_dependency(builds)
        for key, value in settings.tags.items():
            cdk.Tags.of(self).add(key, value)
