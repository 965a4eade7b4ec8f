"""Every transcendental function once, as a graph of primitives; `expand` puts them into a program."""
