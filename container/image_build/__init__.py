"""Build, prove and name one container image: `python3 -m image_build`, run by CodeBuild in container/.

The image is pushed as a candidate, and gets the tag that deployments look for only after every proof.
"""
