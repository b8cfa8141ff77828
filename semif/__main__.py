"""`python -m semif`."""

from semif.cli import app

app(prog_name="semif")
