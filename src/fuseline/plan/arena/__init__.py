"""Arena placement: buffers with lifetimes and sizes get offsets in one block of memory, with a proof of how good that
is.

``types`` is the vocabulary, ``instance_csv`` the file form, ``bounds`` and ``checker`` the proof, ``portfolio`` the
quick answers, ``exact`` the search and ``planner`` the one entry that joins them.
"""
