"""`semif package-model`: a source, verified, turned into a model archive in a bucket or a folder."""
