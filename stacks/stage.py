"""One environment: its stacks, wired."""

import aws_cdk as cdk
from constructs import Construct

from stacks.artifacts import ArtifactsStack
from stacks.build import BuildStack
from stacks.endpoint_settings import EndpointSettings
from stacks.endpoint_stack import EndpointStack
from stacks.semif_endpoint import DecisionsStack
from stacks.settings import EnvironmentSettings
from stacks.standard_endpoint import StandardStack


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
            endpoint.key: _stack_class(endpoint)(
                self, endpoint.key, environment=settings, settings=endpoint, artifacts=self.artifacts
            )
            for endpoint in settings.endpoints
        }
        if settings.has_builds:
            builds = BuildStack(self, "builds", environment=settings, artifacts=self.artifacts)
            for endpoint in settings.endpoints:
                if any(c.built_model or c.built_flavour for c in endpoint.containers):
                    # No reference says so: the projects are known by their names.
                    self.endpoints[endpoint.key].add_stack_dependency(builds)
        for key, value in settings.tags.items():
            cdk.Tags.of(self).add(key, value)


def _stack_class(endpoint: EndpointSettings) -> type[EndpointStack]:
    return DecisionsStack if endpoint.container.engine.name == "semif" else StandardStack
