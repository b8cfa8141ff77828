"""The operator's package: decisions, model archives, the watch on a deployment."""
