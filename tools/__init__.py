"""What a developer runs through make: set-up, demo, diff. Nothing here is deployed."""
