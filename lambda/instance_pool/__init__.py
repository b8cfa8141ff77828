"""Brings a SageMaker endpoint into service on the first instance type of a pool that can be had."""
