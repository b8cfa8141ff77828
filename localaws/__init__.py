"""An embedded AWS on 127.0.0.1 in which an unmodified CDK CLI bootstraps, deploys, diffs and destroys.

moto serves most services. CloudFormation and SageMaker are this package's own, and Lambda functions run as
subprocesses. State lives in memory and ends with the process.
"""
