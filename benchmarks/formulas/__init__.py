"""Gradient compressors written by hand in torch from their papers: the second opinion on `algorithms/*.cll`.

Not written from the programs, and not fast: each module is one formula, `compress` and `decompress` over plain tensors.
Random words come in as arrays, so that a formula and a compiled program can be given the same ones.
"""
