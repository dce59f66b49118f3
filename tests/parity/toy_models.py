"""Tiny random models made by transformers, saved as a user would save them and loaded by the library.

Biases and norm weights are random too: left at 0 and 1, as transformers starts them, a missing one would not show.
Leaves out: the real model (`test_smollm2.py`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import transformers

from specdec import Model, backends, checkpoints
from specdec.targets import Decoder
from specdec.targets.loading import load_params

# Skips every file that imports this one.
torch = pytest.importorskip("torch")

VOCABULARY = 96
LAYERS = 2
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def rope(kind: str, theta: float = 10000.0, **values) -> dict:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **values}}


YARN = {"factor": 4.0, "original_max_position_embeddings": 16}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16, "factor": 8.0}
# Prompts are longer than the 16 positions that the scaled models were "trained" for.
CASES: dict[str, tuple[str, dict]] = {
    "llama": ("llama", {}),
    "llama-tied": ("llama", {"tie_word_embeddings": True}),
    "llama-one-kv-head": ("llama", {"num_key_value_heads": 1}),
    "llama-ungrouped": ("llama", {"num_key_value_heads": 4}),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-attention-bias": ("llama", {"attention_bias": True}),
    "llama-head-dim": ("llama", {"head_dim": 12}),
    "llama-theta": ("llama", rope("default", 500000.0)),
    "llama-linear": ("llama", rope("linear", factor=4.0)),
    "llama-llama3": ("llama", rope("llama3", **LLAMA3)),
    "llama-yarn": ("llama", rope("yarn", **YARN)),
    "llama-yarn-attention-factor": ("llama", rope("yarn", attention_factor=0.8, **YARN)),
    "llama-yarn-mscale": ("llama", rope("yarn", mscale=1.0, mscale_all_dim=0.5, **YARN)),
    "llama-yarn-ramp": ("llama", rope("yarn", 500.0, beta_fast=4.0, beta_slow=0.5, truncate=False, **YARN)),
    "qwen2": ("qwen2", {}),
    "qwen2-tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2-yarn": ("qwen2", rope("yarn", 1000000.0, **YARN)),
    "qwen3": ("qwen3", {"head_dim": 16}),
    "qwen3-tied": ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen3-bias": ("qwen3", {"head_dim": 8, "attention_bias": True}),
    "qwen3-yarn": ("qwen3", {"head_dim": 16, **rope("yarn", 1000000.0, **YARN)}),
}


def reference(name: str, seed: int = 0) -> transformers.PreTrainedModel:
    """A random model in float32. Weights are large enough for peaked attention, so that mistakes show."""
    family, changes = CASES[name]
    config = transformers.AutoConfig.for_model(family, **{**SMALL, **changes})
    draw = torch.Generator().manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for path, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=draw)
            if weight.ndim == 1:
                weight.copy_(noise * 0.3 + (0.0 if path.endswith("bias") else 1.0))
            else:
                weight.copy_(noise * (1.0 if "embed" in path else 2.0 * weight.shape[1] ** -0.5))
    return model


def load(folder: Path, features: tuple[int, ...] = ()) -> Model:
    """What `specdec.load` does, for a folder without a tokenizer."""
    files = checkpoints.locate(str(folder), progress=False)
    config = checkpoints.read_config(files)
    backend = backends.select("cpu")
    params = load_params(config, checkpoints.open_weights(files), backend.dtype)
    return Model(folder.name, Decoder(config, backend, features=features), params, stop_ids=config.stop_ids)


def logits_of(model: transformers.PreTrainedModel, ids: list[int]) -> np.ndarray:
    """`[S, V]`, from one pass without a cache."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def hidden_states_of(model: transformers.PreTrainedModel, ids: list[int]) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows `[S, H]` after each layer, and after the final norm.

    In `output_hidden_states` the last entry is the row behind the final norm, so a hook on the last layer gives
    the one before it.
    """
    seen = []
    handle = model.model.layers[-1].register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        out = model(torch.tensor([ids]), use_cache=False, output_hidden_states=True)
    handle.remove()
    rows = [*out.hidden_states[1:-1], seen[0]]
    return [row[0].numpy() for row in rows], out.hidden_states[-1][0].numpy()


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()


def assert_close(ours, theirs: np.ndarray, what: str = "") -> None:
    """Relative to the largest value. Both sides differ from a float64 run by up to 1e-5 of it."""
    ours = np.asarray(ours, np.float32)
    assert ours.shape == theirs.shape, what
    worst = np.abs(ours - theirs).max() / np.abs(theirs).max()
    assert worst < 3e-5, f"{what}: {worst:.1e} of the largest value"
