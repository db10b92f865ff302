"""Fit a line with Keras on torch, whose own optimizers update the weights."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

rows = np.random.default_rng(0).normal(size=(64, 2)).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
model.fit(rows, rows.sum(axis=1, keepdims=True), validation_split=0.25, batch_size=8, epochs=3, verbose=0)
print("expected", 0, 0, None)
