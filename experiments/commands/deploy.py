"""The verb `deploy`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.experiment_options import DRY_RUN, FORMAT
from experiments.commands.verb import FieldVerb, field

EXAMPLES = (
    "trainfare deploy --run models:/demo@champion --name demo",
    "trainfare deploy --model path/to/folder",
    "trainfare deploy --run models:/demo@champion --token-file token --host 0.0.0.0",
    "trainfare deploy --run RUN_ID --service sagemaker --machine ml.g4dn.xlarge",
)


@click.command(cls=FieldVerb, is_closed=True, prefixes=("aws.",), has_dry_run=True, examples=EXAMPLES)
@field("run", "Run id, job name, group id (its winner) or models:/NAME@ALIAS.", metavar="RUN")
@field("model", "Transformers folder to deploy instead of a run's model.", metavar="FOLDER")
@field("service", "Where to deploy.", metavar="local|sagemaker", default="local", show_default=True)
@field("machine", "SageMaker instance type, such as ml.g4dn.xlarge.", metavar="TYPE")
@field("machines", "Number of instances.", metavar="N", default="1", show_default=True)
@field("name", "Name of the endpoint. Default: the job's or the folder's name.", metavar="NAME")
@field("replace", "true replaces a different model on this machine under the same name.", metavar="true|false")
@field(
    "allow",
    "Checks of the quality gate to skip, separated by commas: failed, unevaluated, worse, other-data.",
    metavar="CHECKS",
)
@field("alias", "Alias of the model to compare with.", metavar="NAME", default="champion", show_default=True)
@field("precision", "Precision. Default: the precision of the evaluation.", metavar="auto|fastest|fp32|bf16|fp16")
@field("host", "Address to bind to, with --service local.", metavar="ADDRESS", default="127.0.0.1", show_default=True)
@field("token-file", "File with a token that requests need; required if --host is not loopback.", metavar="FILE")
@field("wait", "Longest time to wait for the endpoint.", metavar="TIME", default="30m", show_default=True)
@field("image", "Container image, with --service sagemaker.", metavar="URI")
@field("ami", "System image of the instances, which has the GPU driver, with --service sagemaker.", metavar="VERSION")
@field("lifetime", "", hidden=True)
@field("when_over", "", hidden=True)
@field("max_usd", "", hidden=True)
@field("max_billable_seconds", "", hidden=True)
@DRY_RUN
@FORMAT
def command(fields: Mapping[str, str]) -> int:
    """Deploy a trained model, on this machine or SageMaker.

    Set --run or --model. With --service sagemaker, --aws.* options set the region, the role and other fields, as for
    jobs.
    """
    from experiments.deployments.deploy_model import deploy

    return deploy(fields)
