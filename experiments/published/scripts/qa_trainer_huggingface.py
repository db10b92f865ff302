"""Fine-tune on the first 15,000 questions of SQuAD v1.1: `run_qa.py` with the arguments of the published example."""

import argparse
import os
import runpy
import sys
from pathlib import Path

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--model_name", required=True)
parser.add_argument("--epochs", default="3")
parser.add_argument("--train_batch_size", default="32")
parser.add_argument("--learning_rate", default="5e-5")
parser.add_argument("--n_gpus", default="1", help="read by the Training Compiler for a single process")
parser.add_argument("--output_dir", default=os.environ.get("SM_MODEL_DIR"))

if __name__ == "__main__":
    args, others = parser.parse_known_args()
    os.environ.setdefault("GPU_NUM_DEVICES", args.n_gpus)
    own = {"model_name_or_path": args.model_name, "num_train_epochs": args.epochs, "output_dir": args.output_dir}
    own.update(per_device_train_batch_size=args.train_batch_size, learning_rate=args.learning_rate)
    own.update(train_questions=15000, test_questions=1500, per_device_eval_batch_size=args.train_batch_size)
    own.update(logging_strategy="epoch", save_strategy="no", do_train=True, do_eval=True)
    sys.argv[1:] = [word for name, value in own.items() for word in ("--" + name, str(value))] + others
    runpy.run_path(str(Path(__file__).with_name("run_qa.py")), run_name="__main__")
