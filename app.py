"""The CDK app: one stage for each environment in cdk.json."""

import sys

import aws_cdk as cdk

from stacks.assembly_document import write_document
from stacks.mapping_reader import SettingsError
from stacks.settings import load_environments
from stacks.stage import EnvironmentStage

# Annotations would carry traces of the synth's own temporary files, which differ each time.
app = cdk.App(stack_traces=False)
try:
    environments = load_environments(app.node)
    for environment in environments:
        EnvironmentStage(app, environment)
except SettingsError as error:
    sys.exit(f"settings: {error}")
write_document(app.synth(), environments)
