"""The one definition of the version; the build reads it too."""

__version__ = "0.1.0"
