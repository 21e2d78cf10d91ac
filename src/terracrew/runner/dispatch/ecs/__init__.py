"""The dispatcher `ecs`: each executor is a task of Amazon ECS. Needs the extra `aws`; nothing else imports it."""
