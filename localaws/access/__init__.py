"""Who may do what: roles' trust at sts:AssumeRole, and policies at sagemaker:InvokeEndpoint."""
