"""The `docker` of builds in the local AWS: the commands of an image build, answered by buildah."""
