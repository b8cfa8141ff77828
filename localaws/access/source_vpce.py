"""The VPC endpoint that a request is to have come through, for the condition key aws:SourceVpce."""

SOURCE_VPCE_HEADER = "X-Localaws-Source-Vpce"
"""Header of the local AWS's own, which AWS knows nothing of: the endpoint's id, vpce-…"""
