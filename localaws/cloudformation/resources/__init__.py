"""The resource types that the local CloudFormation can make, one class each."""
