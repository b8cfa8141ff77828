"""What exists in AWS."""
