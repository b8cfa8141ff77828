"""Brings the content of one hash into being by at most one CodeBuild build, or finds that it is there."""
