"""Entry point of a job that starts a user's script with arguments or variables that SageMaker's toolkit cannot pass.

A copy of this file is put beside the script. It reads the hyperparameters and its own settings from the variables that
the toolkit sets, and replaces itself by the script, so that the script runs as if it had been started directly.
`training/contract/job_spec.py` explains the settings. Standard library only, and boto3 if there are secrets.
"""

import importlib
import json
import os
import re
import runpy
import shlex
import sys
from typing import Any, Dict, List, Mapping, Tuple

SETTINGS = "sagemaker_trainfare_entry"
FOLDER = "trainfare_metering"
"""Folder beside this file with the meter and its reporter; absent without a meter."""
STYLES = {"space": "--", "equals": "--", "assign": ""}


def arguments(hyperparameters: Dict[str, Any], settings: Dict[str, Any]) -> List[str]:
    """Return the script's command-line arguments: the bare words first, the named ones sorted by name."""
    words, style = list(settings.get("words", [])), settings.get("style", "space")
    for name, value in sorted(hyperparameters.items()):
        option = (STYLES[style] if len(name) > 1 or style == "assign" else "-") + name
        if isinstance(value, bool) and settings.get("flags"):
            words += [option] if value else []
        elif style != "space":
            words.append(option + "=" + _text(value))
        else:
            words += [option] + ([str(each) for each in value] if isinstance(value, list) else [_text(value)])
    return words


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join("%s=%s" % (key, each) for key, each in sorted(value.items()))
    return "" if value is None else str(value)


def command(program: str, words: List[str]) -> List[str]:
    """Return the command that runs a Python file, a module (`-m name`) or any other executable file."""
    if program.startswith("-m "):
        return [sys.executable, "-u", "-m", program[3:].strip()] + words
    if program.endswith(".py"):
        return [sys.executable, "-u", program] + words
    return ["/bin/sh", "-c", "./%s %s" % (shlex.quote(program), " ".join(map(shlex.quote, words)))]


def secret(variable: str, name: str) -> str:
    """Return a secret of AWS Secrets Manager. In a JSON object, it is the value under the variable's name."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        sys.exit("script.secrets.%s: boto3, which reads the secret, is not installed in this image" % variable)
    arn = re.match(r"arn:[^:]+:secretsmanager:([^:]+):", name)
    region = arn.group(1) if arn else os.environ.get("AWS_REGION") or os.environ.get("SM_REGION") or None
    region = region or os.environ.get("SAGEMAKER_REGION") or None
    try:
        client = boto3.client("secretsmanager", region_name=region)
        text = str(client.get_secret_value(SecretId=name).get("SecretString", ""))
    except (BotoCoreError, ClientError) as error:
        sys.exit("script.secrets.%s: secret %s cannot be read: %s" % (variable, name, error))
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    value = str(fields.get(variable, "")) if isinstance(fields, dict) else text
    if not value.strip():
        sys.exit("script.secrets.%s: secret %s is empty, or has no value of that name" % (variable, name))
    return value.strip()


def write(path: str, content: Any) -> None:
    """Write one of `script.files`: a text as it is, anything else as TOML, JSON or YAML by the suffix of its path."""
    sign = " = " if path.endswith(".toml") else ": "
    if isinstance(content, dict) and not path.endswith(".json"):
        content = "\n".join(_entries(content, sign)) + "\n"
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    unfinished = "%s.%d" % (path, os.getpid())  # all processes of a job write the file
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else _literal(content, sign))
    os.replace(unfinished, path)


def _entries(content: Dict[str, Any], sign: str) -> List[str]:
    """Return the entries of a mapping. TOML, whose sign is ` = `, has no null."""
    return [
        json.dumps(key, ensure_ascii=False) + sign + _literal(value, sign)
        for key, value in content.items()
        if value is not None or sign != " = "
    ]


def _literal(value: Any, sign: str) -> str:
    """Return a value as JSON, which is also YAML, or as TOML, which differs in the sign between key and value."""
    if isinstance(value, dict):
        return "{%s}" % ", ".join(_entries(value, sign))
    if isinstance(value, list):
        return "[%s]" % ", ".join(_literal(each, sign) for each in value)
    text = json.dumps(value, ensure_ascii=False)
    # PyYAML reads 3e-05, a number without a point, as a text.
    return re.sub(r"^(-?\d+)e", r"\1.0e", text) if isinstance(value, float) else text


def settings_of(variables: Mapping[str, str]) -> Dict[str, Any]:
    """Return the settings. Those that are too long for one hyperparameter are in several, each behind a `|`."""
    parameters = json.loads(variables["SM_FRAMEWORK_PARAMS"])
    parts = [parameters[name] for name in sorted(parameters) if name.startswith(SETTINGS)]
    return dict(json.loads("".join(part[1:] for part in parts)) if len(parts) > 1 else parts[0])


def prepare() -> Tuple[str, List[str]]:
    """Set the variables that the script sees, and return (its program, its arguments)."""
    settings = settings_of(os.environ)
    words = arguments({**json.loads(os.environ["SM_HPS"]), **settings.get("values", {})}, settings)
    program = settings["program"]
    for path, content in settings.get("files", {}).items():
        write(path, content)
    for variable, name in settings.get("secrets", {}).items():
        os.environ[variable] = secret(variable, name)
    os.environ["SM_USER_ENTRY_POINT"] = program
    os.environ["SM_MODULE_NAME"] = re.sub(r"^-m\s+|\.py$", "", program)
    os.environ["SM_USER_ARGS"] = json.dumps(words)
    return program, words


def main() -> None:
    """Run the script in place of this process, or under its meter."""
    program, words = prepare()
    if "mpi4py" in sys.modules:  # `python -m mpi4py` aborts all processes if an exception reaches it
        _run_here(program, words)
        return
    if not program.startswith("-m ") and not program.endswith(".py"):
        os.chmod(program, 0o755)
    line = command(program, words)
    reporter = os.path.join(os.path.dirname(os.path.abspath(__file__)), FOLDER, "reporter.py")
    if os.path.exists(reporter):  # script.meter
        functions = runpy.run_path(reporter)
        functions["end"](functions["run"](line, settings_of(os.environ)))
    os.execv(line[0], line)


def _run_here(program: str, words: List[str]) -> None:
    if program.startswith("-m "):
        sys.argv[1:] = words
        runpy.run_module(program[3:].strip(), run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = [program] + words
    sys.path[0] = os.path.dirname(os.path.abspath(program))
    runpy.run_path(program, run_name="__main__")


def _mp_fn(index: int) -> None:
    """Run the script's own `_mp_fn`: PyTorch/XLA's spawner imports the program and calls this in each process."""
    program, words = prepare()
    sys.argv[:] = [program] + words
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    name = program[3:].strip() if program.startswith("-m ") else os.path.basename(program)[:-3]
    importlib.import_module(name)._mp_fn(index)


if __name__ == "__main__":
    main()
