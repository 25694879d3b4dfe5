"""Model files: a fitted classifier as arrays and JSON in one zip, safe to load from anyone."""

from bayespoint.io.model_file.errors import ModelFileError
from bayespoint.io.model_file.files import SCHEMA, Model, describe, load, save

__all__ = ["SCHEMA", "Model", "ModelFileError", "describe", "load", "save"]
