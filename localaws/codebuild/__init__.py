"""CodeBuild of the local AWS: projects, the queue of builds, and builds that run their buildspec for real."""
