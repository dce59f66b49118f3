"""transformers on torch, given the library's own weights in memory: its `generate`, and a bare loop over its model.

Leaves out: torch.compile.
"""

from __future__ import annotations

import importlib.util
import inspect
import time

import numpy as np
from bench import MODEL, Bench
from unavailable import Unavailable

from specdec import checkpoints


class Transformers:
    """A Llama model in float32 with its default attention and a KV cache.

    Args:
      bench: settings of the run.
      ids: the prompt.
      bare: loop over the model instead of calling `generate`, which does more around it.
    """

    def __init__(self, bench: Bench, ids: list[int], *, bare: bool):
        if importlib.util.find_spec("torch") is None:
            raise Unavailable("torch is not installed (pip install -e '.[oracle]')")
        import torch
        import transformers

        self._torch, self._cache = torch, transformers.DynamicCache
        torch.set_num_threads(bench.threads)
        files = checkpoints.locate(MODEL, progress=False)
        read, source = checkpoints.read_config(files), checkpoints.open_weights(files)
        config = transformers.LlamaConfig(
            vocab_size=read.vocab_size,
            hidden_size=read.hidden_size,
            intermediate_size=read.intermediate_size,
            num_hidden_layers=read.num_layers,
            num_attention_heads=read.num_heads,
            num_key_value_heads=read.num_kv_heads,
            max_position_embeddings=read.max_positions,
            rms_norm_eps=read.norm_eps,
            tie_word_embeddings=read.tied,
            rope_parameters={"rope_type": "default", "rope_theta": read.rotary.theta},
        )
        self._model = transformers.LlamaForCausalLM(config).eval()
        weights = {name: torch.tensor(source.read(name).astype(np.float32)) for name in source.names()}
        self._model.load_state_dict(weights, strict=False)
        self._prompt = torch.tensor([ids])
        self._decode = self._loop if bare else self._generate
        self.note = f"torch {torch.__version__.split('+')[0]}, fp32, {torch.get_num_threads()} threads"

    def decode(self, tokens: int) -> float:
        with self._torch.inference_mode():
            return self._decode(tokens)

    def _generate(self, tokens: int) -> float:
        """Time for the prompt and one token is taken off."""

        def seconds(count: int) -> float:
            started = time.perf_counter()
            out = self._model.generate(
                self._prompt,
                attention_mask=self._torch.ones_like(self._prompt),
                do_sample=False,
                max_new_tokens=count,
                min_new_tokens=count,
                pad_token_id=0,
            )
            assert out.shape[1] == self._prompt.shape[1] + count
            return time.perf_counter() - started

        first = seconds(1)
        return seconds(tokens + 1) - first

    def _loop(self, tokens: int) -> float:
        # The argument had another name before.
        name = "cache" if "cache" in inspect.signature(self._model.forward).parameters else "past_key_values"
        cache = {name: self._cache(config=self._model.config)}
        out = self._model(self._prompt, **cache, use_cache=True, logits_to_keep=1)
        token = out.logits[:, -1:].argmax(-1)
        started = time.perf_counter()
        for _ in range(tokens):
            out = self._model(token, **cache, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
        return time.perf_counter() - started

    def close(self) -> None:
        del self._model
