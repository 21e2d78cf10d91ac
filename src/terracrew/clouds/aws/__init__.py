"""AWS: runners as tasks of ECS on Fargate. Nothing here imports boto3 before the first call."""
