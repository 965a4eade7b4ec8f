"""fuseline: write a tensor program once; see what bounds it, plan it, and run it at that bound."""
