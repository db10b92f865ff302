"""Fine-tune on the questions of SQuAD v1.1 with Trainer, and score its answers.

The channels `train` and `test` have files in SQuAD's own format, also as .gz. The file runs in containers from Python
3.6 and Transformers 4.6 on, also with SageMaker's library for data parallelism, which Trainer itself calls.
"""

import gzip
import json
import os
import re
import string
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from transformers import (
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    DataCollatorWithPadding,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

MAX_ANSWER_TOKENS = 30
Features = List[Dict[str, Any]]
Span = Tuple[int, int, List[Tuple[int, int]]]


class Question(NamedTuple):
    text: str
    context: str
    answers: List[str]
    start: Optional[int]
    """First character of the first answer in the context; None without an answer."""


@dataclass
class ScriptArguments:
    """Arguments that TrainingArguments lacks."""

    model_name_or_path: str
    dataset_name: str = "squad"
    max_seq_length: int = 384
    doc_stride: int = 128
    pad_to_max_length: bool = True
    train_questions: int = 10**9
    test_questions: int = 10**9


def questions(channel: str, limit: int) -> List[Question]:
    """Return the first questions of a channel."""
    found = []
    for path in sorted(Path(os.environ["SM_CHANNEL_" + channel]).glob("*.json*")):
        with (gzip.open if path.suffix == ".gz" else open)(str(path), "rt", encoding="utf-8") as file:
            for paragraph in chain.from_iterable(article["paragraphs"] for article in json.load(file)["data"]):
                for qa in paragraph["qas"]:
                    start = qa["answers"][0]["answer_start"] if qa["answers"] else None
                    answers = [answer["text"] for answer in qa["answers"]]
                    found.append(Question(qa["question"].lstrip(), paragraph["context"], answers, start))
    return found[:limit]


def windows(tokenizer: Any, asked: List[Question], args: ScriptArguments) -> Tuple[Features, List[Span]]:
    """Return overlapping windows over each context, and (question, first token, characters of tokens) of each window.

    A window's label is the first answer's first and last token, or the CLS token if the answer is not in the window.
    """
    right = tokenizer.padding_side == "right"
    texts = [question.text for question in asked], [question.context for question in asked]
    encoded = tokenizer(
        *(texts if right else texts[::-1]),
        truncation="only_second" if right else "only_first",
        max_length=args.max_seq_length,
        stride=args.doc_stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length" if args.pad_to_max_length or not right else False,
    )
    owners, characters = encoded.pop("overflow_to_sample_mapping"), encoded.pop("offset_mapping")
    features: Features = []
    spans: List[Span] = []
    for at, owner in enumerate(owners):
        kinds, question = encoded.sequence_ids(at), asked[owner]
        first, count = kinds.index(int(right)), kinds.count(int(right))
        offsets = characters[at][first : first + count]
        start = end = encoded["input_ids"][at].index(tokenizer.cls_token_id)
        if question.start is not None:
            begin, stop = question.start, question.start + len(question.answers[0])
            if offsets[0][0] <= begin and stop <= offsets[-1][1]:
                start = first + bisect_right([each for each, _ in offsets], begin) - 1
                end = first + bisect_left([each for _, each in offsets], stop)
        feature = {name: values[at] for name, values in encoded.items()}
        features.append({"start_positions": start, "end_positions": end, **feature})
        spans.append((owner, first, offsets))
    return features, spans


def answers(predictions: Any, spans: List[Span], asked: List[Question]) -> List[str]:
    """Return the most likely answer of each question, over all its windows."""
    best: Dict[int, Tuple[float, str]] = {}
    for (owner, first, offsets), starts, ends in zip(spans, *predictions[:2]):
        inside = slice(first, first + len(offsets))
        sums = starts[inside, None] + ends[None, inside]
        sums = np.where(np.tril(np.triu(np.ones_like(sums)), MAX_ANSWER_TOKENS - 1) > 0, sums, -np.inf)
        start, end = divmod(int(sums.argmax()), len(offsets))
        if owner not in best or sums[start, end] > best[owner][0]:
            best[owner] = sums[start, end], asked[owner].context[offsets[start][0] : offsets[end][1]]
    return [best[owner][1] for owner in range(len(asked))]


def words(text: str) -> List[str]:
    """Return the words that SQuAD compares: without case, punctuation and articles."""
    plain = "".join(each for each in text.lower() if each not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def f1(answer: str, reference: str) -> float:
    ours, theirs = words(answer), words(reference)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs)) if common else float(ours == theirs)


def main() -> None:
    args, training_args = HfArgumentParser((ScriptArguments, TrainingArguments)).parse_args_into_dataclasses()
    if args.dataset_name != "squad":
        raise SystemExit("--dataset_name {} is not supported: this script trains on squad".format(args.dataset_name))
    if training_args.process_index == 0:
        logging.set_verbosity_info()
    set_seed(training_args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path)
    asked = questions("TEST", args.test_questions)
    test, spans = windows(tokenizer, asked, args)

    def scores(prediction: Any) -> Dict[str, float]:
        pairs = list(zip(answers(prediction.predictions, spans, asked), asked))
        exact = [max(words(answer) == words(each) for each in question.answers) for answer, question in pairs]
        overlap = [max(f1(answer, each) for each in question.answers) for answer, question in pairs]
        return {"exact_match": 100 * float(np.mean(exact)), "f1": 100 * float(np.mean(overlap))}

    trainer = Trainer(
        model=AutoModelForQuestionAnswering.from_pretrained(args.model_name_or_path),
        args=training_args,
        train_dataset=windows(tokenizer, questions("TRAIN", args.train_questions), args)[0],
        eval_dataset=test,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=scores,
    )
    if training_args.do_train:
        trainer.log_metrics("train", trainer.train().metrics)
        trainer.save_model()
        tokenizer.save_pretrained(training_args.output_dir)
    if training_args.do_eval:
        trainer.log_metrics("eval", trainer.evaluate())


if __name__ == "__main__":
    main()
