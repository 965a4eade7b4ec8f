"""Small sizes of every operation that has a cost, for tests of shapes."""

OPERATION_SIZES = {
    "gemm": {"m": 2, "n": 3, "k": 5, "batch": 2},
    "grouped-gemm": {"groups": 2, "m": 3, "n": 5, "k": 4},
    "attention": {"batch": 2, "q_len": 3, "kv_len": 7, "heads": 4, "kv_heads": 2},
    "attention-prefill": {"batch": 2, "q_len": 5, "heads": 4},
    "attention-decode": {"batch": 2, "kv_len": 5, "heads": 4},
    "mla-prefill": {"batch": 2, "q_len": 9},
    "mla-decode": {"batch": 2, "kv_len": 9},
    "mqa-logits": {"q_len": 3, "kv_len": 5},
    "moe": {"tokens": 3, "hidden": 4, "intermediate": 5, "experts": 6, "topk": 2},
    "norm": {"rows": 3, "columns": 5},
    "softmax": {"rows": 3, "columns": 5},
    "reduction": {"elements": 30},
    "copy": {"elements": 30},
    "elementwise": {"elements": 30, "operations": 4},
    "batched-gemm": {"batch": 2, "m": 3, "n": 4, "k": 5},
}
