"""SQL fragments that say which runners may get a job, from the assignments of its module and the plan that it continues with."""

from typing import LiteralString

COVERS: LiteralString = """(assignments.place_id = modules.id OR assignments.kind = 'group' AND (assignments.path = ''
    OR substr(modules.path, 1, length(assignments.path) + 1) = assignments.path || '/'))"""
"""Whether an assignment covers a module."""
MAKER: LiteralString = """plans
    JOIN attempts AS made ON made.job_id = plans.job_id AND made.number = plans.attempt
    JOIN runners AS maker ON maker.id = made.runner_id AND NOT maker.is_disabled AND maker.removing_since IS NULL
    JOIN modules AS own ON own.state_version = plans.state_version AND (own.runner_id IS NULL OR own.runner_id = maker.id)"""
"""The runner that made the plan that a job continues with: no other may have the job while the plan can be used there."""
OF_JOB: LiteralString = "plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt AND own.id = jobs.module_id"
"""Joins `MAKER` to the job."""
