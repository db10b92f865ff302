"""Each kind of folder that a script may save is logged as what it is, or refused with the reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.inference.predictor import load_predictor
from models.logged.flavor import NotServable
from models.logged.log_model import log_model
from models.logged.model_folder import model_folder
from models.registry import Registry
from models.trained_model import trained_model
from tests.support.models.made_models import TOKENIZER_FILES, packed, planned_job
from tests.support.models.place import Place
from tracking.groups.planned_job import ScriptPlan
from training.contract.errors import InputError

ModelOf = Callable[[str], Path]
TEXTS = ["winter is coming", "it will be dark soon"]


def logged(place: Place, folder: Path, name: str = "job-1") -> Path:
    """Log what a script has saved, and return the folder of the registered model. Raises NotServable."""
    job = planned_job(place.folder, name, script=ScriptPlan(regexes={}, hyperparameters={}))
    run_id = place.run(packed(folder, place.folder / f"{name}.tar.gz"), name).info.run_id
    log_model(place.store, place.service, job, run_id, place.scratch)
    trained = trained_model(place.store, run_id)
    assert Registry(place.store).register(trained, "saved", allowed={"unevaluated"}).is_new
    return model_folder(place.store, trained, place.folder / "home", lambda _: None)


def answers(folder: Path) -> list[Any]:
    return load_predictor(folder).answer(TEXTS)


def weights(model: Any, prefix: str = "") -> dict[str, Any]:
    return {prefix + name: each.detach().clone() for name, each in model.state_dict().items()}


def without_weights(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    (folder / "model.safetensors").unlink()
    return folder


def test_the_weights_of_a_compiled_model_get_their_names_back(place: Place, tmp_path: Path, model_of: ModelOf) -> None:
    """In two files with an index, whose header becomes shorter."""
    import transformers

    source = model_of("classification")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(source)
    folder = without_weights(source, tmp_path / "saved")
    model.save_pretrained(folder, state_dict=weights(model, "_orig_mod."), max_shard_size="1MB")
    assert "_orig_mod.classifier.bias" in (folder / "model.safetensors.index.json").read_text()
    assert answers(logged(place, folder)) == answers(source)


@pytest.mark.parametrize("kind", ["SEQ_CLS", "CAUSAL_LM"])
def test_an_adapter_is_served_with_its_base_model(place: Place, tmp_path: Path, model_of: ModelOf, kind: str) -> None:
    """The base model is in a channel of the job. That of the classifier has no head, which the adapter then has."""
    import peft
    import torch
    import transformers

    is_classifier = kind == "SEQ_CLS"
    base, folder = model_of("causal-lm"), tmp_path / "saved"
    head: Any = transformers.AutoModelForCausalLM
    if is_classifier:
        base, head = tmp_path / "base", transformers.AutoModelForSequenceClassification
        transformers.AutoModel.from_pretrained(model_of("classification")).save_pretrained(base)
    for name in TOKENIZER_FILES:
        for target in (base, folder):
            target.mkdir(exist_ok=True)
            if not (target / name).exists():
                shutil.copy(model_of("classification") / name, target / name)
    config = peft.LoraConfig(task_type=kind, r=4, target_modules=["query", "value"], init_lora_weights=False)
    model = peft.get_peft_model(head.from_pretrained(base), config)
    model.save_pretrained(folder)
    settings = json.loads((folder / "adapter_config.json").read_text())
    channel = tmp_path / "opt" / "ml" / "input" / "data" / "base"
    channel.parent.mkdir(parents=True)

    def with_base(name: str, target: Path) -> Path:
        channel.unlink(missing_ok=True)
        channel.symlink_to(target)
        (folder / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": name}))
        return folder

    if is_classifier:
        with pytest.raises(NotServable, match=r"it is an adapter without the model's config\.json: save that beside"):
            logged(place, with_base(str(channel), base), "job-0")
        model.base_model.model.config.save_pretrained(folder)
    served = logged(place, with_base(str(channel), base))
    channel.unlink()  # the job's folder is deleted
    assert len(answers(served)) == 2
    ids = torch.tensor([[101, 3467, 2003, 2746, 102]])
    with torch.no_grad():
        expected = model.eval()(input_ids=ids).logits
        assert torch.allclose(load_predictor(served).loaded.model(input_ids=ids).logits, expected, atol=1e-6)
    with pytest.raises(NotServable, match=r"/opt/ml/input/data/base"):
        logged(place, with_base("/opt/ml/input/data/base", base), "job-2")
    if is_classifier:  # a language model has no pooler
        with pytest.raises(NotServable, match=r"its files lack the weights bert\.pooler\.dense\.bias, bert\.pooler"):
            logged(place, with_base(str(channel), model_of("causal-lm")), "job-3")


def save_marked(folder: Path, model: Any, source: Path) -> None:
    model.config.embedding_pooling = "mean"
    model.save_pretrained(folder)
    for name in TOKENIZER_FILES:
        shutil.copy(source / name, folder / name)


def test_an_encoder_with_the_mark_is_served_as_embeddings(place: Place, tmp_path: Path, model_of: ModelOf) -> None:
    """As sentence-transformers saves it; its pooler, which no answer needs, may be missing."""
    import transformers

    source = model_of("classification")
    model = transformers.BertModel.from_pretrained(source, add_pooling_layer=False)
    save_marked(tmp_path / "saved", model, source)
    vector, _ = answers(logged(place, tmp_path / "saved"))
    assert sum(value**2 for value in vector["embedding"]) == pytest.approx(1)


def save_without_head(folder: Path, source: Path) -> None:
    import transformers

    transformers.AutoModel.from_pretrained(source).save_pretrained(folder)
    shutil.copy(source / "config.json", folder / "config.json")


def save_wrapped(folder: Path, source: Path) -> None:
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(source)
    (folder / "model.safetensors").unlink()
    torch.save(weights(model, "module."), folder / "pytorch_model.bin")


def save_other_labels(folder: Path, source: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b", "2": "c"}}))


@pytest.mark.parametrize(
    ("save", "reason"),
    [
        (
            save_without_head,
            r"its files lack the weights classifier\.bias, classifier\.weight: save the whole model by",
        ),
        (save_wrapped, r"lack the weights bert\..* and 38 more, but have module\.bert\..*: save the whole model"),
        (save_other_labels, r"its files lack the weights classifier\.bias, classifier\.weight: save"),
    ],
)
def test_a_model_that_lacks_weights_is_refused(
    place: Place, tmp_path: Path, model_of: ModelOf, save: Callable[[Path, Path], None], reason: str
) -> None:
    folder = shutil.copytree(model_of("classification"), tmp_path / "saved")
    save(folder, model_of("classification"))
    with pytest.raises(NotServable, match=reason):
        logged(place, folder)
    # A model that was logged before, or a folder of the user's.
    with pytest.raises(InputError, match=reason):
        load_predictor(folder)


@pytest.mark.parametrize(
    ("names", "content"),
    [
        (["model.pt"], "but has model.pt: save the model and its tokenizer by save_pretrained in the model folder"),
        (["model.keras"], "but has model.keras: save"),
        (["lightning_logs/version_0/checkpoints/epoch=1.ckpt"], "but has lightning_logs/version_0/checkpoints/epoch"),
        (
            [f"checkpoint-{step}/{name}" for step in (5, 10) for name in ("config.json", "model.safetensors")],
            "but has checkpoint-10/config.json, checkpoint-10/model.safetensors, checkpoint-5/config.json and 1 more: ",
        ),
    ],
)
def test_another_folder_is_refused_with_what_it_has(
    place: Place, tmp_path: Path, names: list[str], content: str
) -> None:
    for name in names:
        (tmp_path / "saved" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "saved" / name).write_bytes(b"x")
    with pytest.raises(NotServable) as caught:
        logged(place, tmp_path / "saved")
    assert f"it has no config.json, so it is not a Transformers folder, {content}" in str(caught.value)
    # Without an MLflow model, the job's artifact would be served.
    [run] = place.client.search_runs([place.experiment_id])
    with pytest.raises(InputError, match=r"the model of run \w+ \(job-1\) cannot be served: it has no config.json"):
        model_folder(place.store, trained_model(place.store, run.info.run_id), tmp_path / "home", lambda _: None)


def test_a_damaged_adapter_is_refused(place: Place, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    for text in ("{}", "{"):
        (tmp_path / "saved" / "adapter_config.json").write_text(text)
        with pytest.raises(
            NotServable, match=r"its adapter_config\.json, or the base model that it names, cannot be r"
        ):
            logged(place, tmp_path / "saved", f"job-{len(text)}")
