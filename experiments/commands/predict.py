"""The verb `predict`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from experiments.commands.verb import FieldVerb, field

EXAMPLES = (
    'trainfare predict --endpoint demo --text "Winter is coming."',
    'trainfare predict --endpoint demo --inputs \'{"inputs": ["a", "b"], "parameters": {"top_k": 2}}\'',
    "trainfare predict --run models:/demo@champion --file texts.jsonl --output answers.jsonl",
)


@click.command(cls=FieldVerb, is_closed=False, examples=EXAMPLES)
@field("endpoint", "Name of the endpoint. Default: the only one.", metavar="NAME")
@field("text", "One input, as plain text.", metavar="TEXT")
@field("inputs", "Inputs, as JSON. Default: standard input.", metavar="JSON")
@field("parameters", "Parameters of the task, as a JSON object.", metavar="JSON")
@field("service", "Service of the endpoint.", metavar="local|sagemaker")
@field("trace", "true logs the request to MLflow.", metavar="true|false", default="true", show_default=True)
@field("file", "Predict every row of this file, folder or pattern, on this machine.", metavar="FILE")
@field("run", "With --file: run id, job name, group id or models:/NAME@ALIAS.", metavar="RUN")
@field("model", "With --file: Transformers folder, instead of --run.", metavar="FOLDER")
@field("output", "With --file: JSON lines to write. Default: NAME.answers.jsonl.", metavar="FILE")
@field("encoding", "With --file: encoding of text, such as utf-16 or cp1252. Default: utf-8.", metavar="NAME")
@field("delimiter", "With --file: character between fields. Default: found in the header.", metavar="CHARACTER")
@field("task", "With --file: task, if config.json does not determine it.", metavar="TASK")
@field("precision", "With --file: auto is as evaluated.", metavar="auto|fastest|fp32|bf16|fp16")
@field("max_length", "With --file: longest input in tokens; longer ones are cut.", metavar="N")
@field("track", "With --file: true logs a run to MLflow.", metavar="true|false", default="true", show_default=True)
def command(fields: Mapping[str, str]) -> int:
    """Send a request to an endpoint, or predict every row of a file.

    With --file, --columns.NAME options name the columns of the file. With an endpoint on SageMaker, --aws.* options
    set the region and other fields.
    """
    from experiments.deployments.ask_endpoint import predict

    return predict(fields)
