"""Verbs of trained models: `register`, `deploy`, `predict`, `undeploy` and `endpoints`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.verb import FieldVerb, experiment_field, field
from experiments.deployments.services import ENDPOINTS
from training.services.registry import DEFAULT

allow_option = field(
    "allow",
    "Checks of the quality gate to skip, separated by commas: failed, unevaluated, worse, other-data.",
    metavar="CHECKS",
)


@click.command("register", cls=FieldVerb, is_closed=True)
@experiment_field("Register the winner of the latest group of this experiment.")
@field("group", "Register the winner of the group of this id.", metavar="ID")
@field("run", "Register the model of this run id, job name or group id.", metavar="RUN")
@field("name", "Name of the registered model. Default: the experiment's name.", metavar="NAME")
@field("alias", "Alias for the new version.", metavar="NAME", default="champion", show_default=True)
@allow_option
def register(fields: Mapping[str, str]) -> int:
    """Register a trained model and set its alias.

    The model becomes a version of its experiment's registered model.

    \b
    Examples:
      trainfare register --experiment demo
      trainfare register --group demo-261101-120000-ab12 --alias challenger
      trainfare register --run RUN_ID --name reviews --allow other-data
    """
    from experiments.deployments.register_model import register

    return register(fields)


@click.command("deploy", cls=FieldVerb, is_closed=True, prefixes=("aws.",))
@field("run", "Run id, job name, group id (its winner) or models:/NAME@ALIAS.", metavar="RUN")
@field("model", "Transformers folder to deploy instead of a run's model.", metavar="FOLDER")
@field("service", "Where to deploy.", metavar="|".join(ENDPOINTS), default=DEFAULT, show_default=True)
@field("machine.instance_type", "SageMaker instance type, such as ml.g4dn.xlarge.", metavar="TYPE")
@field("machine.instance_count", "Number of instances.", metavar="N", default="1", show_default=True)
@field("endpoint", "Name of the endpoint. Default: the job's or the folder's name.", metavar="NAME")
@allow_option
@field("alias", "Alias of the model to compare with.", metavar="NAME", default="champion", show_default=True)
@field("precision", "Precision. Default: the precision of the evaluation.", metavar="auto|fp32|bf16|fp16")
@field("host", "Address to bind to, with --service local.", metavar="ADDRESS", default="127.0.0.1", show_default=True)
@field("token-file", "File with a token that requests need; required if --host is not loopback.", metavar="FILE")
@field("timeout", "Longest time to wait for the endpoint.", metavar="TIME", default="30m", show_default=True)
@field("machine.image", "Container image, with --service sagemaker.", metavar="URI")
@field("ami", "System image of the instances, which has the GPU driver, with --service sagemaker.", metavar="VERSION")
def deploy(fields: Mapping[str, str]) -> int:
    """Deploy a trained model, on this machine or SageMaker.

    Set --run or --model. With --service sagemaker, --aws.* options set the region, the role and other fields, as for
    jobs.

    \b
    Examples:
      trainfare deploy --run models:/demo@champion --endpoint demo
      trainfare deploy --model path/to/folder
      trainfare deploy --run models:/demo@champion --token-file token --host 0.0.0.0
      trainfare deploy --run RUN_ID --service sagemaker --machine.instance_type ml.g4dn.xlarge
    """
    from experiments.deployments.endpoints import deploy

    return deploy(fields)


@click.command("predict", cls=FieldVerb, is_closed=False)
@field("endpoint", "Name of the endpoint.", metavar="NAME")
@field("text", "One input, as plain text.", metavar="TEXT")
@field("inputs", "Inputs, as JSON. Default: standard input.", metavar="JSON")
@field("parameters", "Parameters of the task, as a JSON object.", metavar="JSON")
@field("service", "Service of the endpoint. Default: local, or sagemaker with --aws.*.", metavar="|".join(ENDPOINTS))
@field("file", "Predict every row of this file, folder or pattern, on this machine.", metavar="FILE")
@field("run", "With --file: run id, job name, group id or models:/NAME@ALIAS.", metavar="RUN")
@field("model", "With --file: Transformers folder, instead of --run.", metavar="FOLDER")
@field("output", "With --file: JSON lines to write. Default: NAME.answers.jsonl.", metavar="FILE")
@field("data.encoding", "With --file: encoding of text, such as utf-16 or cp1252. Default: utf-8.", metavar="NAME")
@field("data.delimiter", "With --file: character between fields. Default: found in the header.", metavar="CHARACTER")
@field("task", "With --file: task, if config.json does not determine it.", metavar="TASK")
@field("precision", "With --file: auto is as evaluated.", metavar="auto|fp32|bf16|fp16")
@field("max_length", "With --file: longest input in tokens; longer ones are cut.", metavar="N")
def predict(fields: Mapping[str, str]) -> int:
    """Send a request to an endpoint, or predict every row of a file.

    With --file, --data.columns.NAME options name the columns of the file. With an endpoint on SageMaker, --aws.*
    options set the region and other fields.

    \b
    Examples:
      trainfare predict --endpoint demo --text "Winter is coming."
      trainfare predict --endpoint demo --inputs '["a", "b"]' --parameters '{"top_k": 2}'
      trainfare predict --run models:/demo@champion --file texts.jsonl --output answers.jsonl
    """
    from experiments.deployments.predict import predict

    return predict(fields)


@click.command("undeploy", cls=FieldVerb, is_closed=True, prefixes=("aws.",))
@field("endpoint", "Name of the endpoint.", metavar="NAME")
@field("all", "Delete every endpoint that `trainfare endpoints` lists.", is_flag=True)
@field("service", "Service of the endpoint. Default: local, or sagemaker with --aws.*.", metavar="|".join(ENDPOINTS))
def undeploy(fields: Mapping[str, str]) -> int:
    """Delete an endpoint, or all endpoints.

    \b
    Examples:
      trainfare undeploy --endpoint demo
      trainfare undeploy --all
    """
    from experiments.deployments.endpoints import undeploy

    return undeploy(fields)


@click.command("endpoints", cls=FieldVerb, is_closed=True, prefixes=("aws.",))
@field("service", "List only the endpoints of this service.", metavar="|".join(ENDPOINTS))
def endpoints(fields: Mapping[str, str]) -> int:
    """List endpoints with their price per hour and cost so far.

    \b
    Examples:
      trainfare endpoints
      trainfare endpoints --service sagemaker --aws.region eu-west-1
    """
    from experiments.deployments.endpoints import endpoints

    return endpoints(fields)
