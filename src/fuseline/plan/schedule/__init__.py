"""The order of operations that needs the least memory, over plain integers: no graph type is known here.

``problem`` is the vocabulary and the memory model, ``greedy``, ``beam`` and ``downsets`` the ways to an order,
``least_memory`` the entry.
"""
