"""Compiled code at run time: made, kept, called and measured on this machine."""
