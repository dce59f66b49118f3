"""Model files: finding, fetching and reading them.

Leaves out: what the weights compute (`specdec.targets`).
"""

from specdec.checkpoints.aliases import ALIASES as ALIASES
from specdec.checkpoints.cache_dir import cache_dir as cache_dir
from specdec.checkpoints.detokenize import StreamDecoder as StreamDecoder
from specdec.checkpoints.fetch import fetch_smollm2 as fetch_smollm2
from specdec.checkpoints.files import ModelFiles as ModelFiles
from specdec.checkpoints.files import ModelKind as ModelKind
from specdec.checkpoints.locate import locate as locate
from specdec.checkpoints.opening import load_tokenizer as load_tokenizer
from specdec.checkpoints.opening import open_weights as open_weights
from specdec.checkpoints.opening import read_config as read_config
from specdec.checkpoints.source import TensorSource as TensorSource
from specdec.checkpoints.stop_ids import stop_ids as stop_ids
from specdec.checkpoints.tokenizer import Tokenizer as Tokenizer
