"""CloudFormation of the local AWS: templates, change sets, stack operations with rollback, resource types."""
