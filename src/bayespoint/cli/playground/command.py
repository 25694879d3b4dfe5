"""``bayespoint playground``: open the page, alone or with rows and a model behind it."""

import webbrowser
from importlib.resources import as_file, files
from pathlib import Path

from bayespoint._support.types import Array
from bayespoint.cli.fitted import base_of
from bayespoint.cli.inputs import (
    check_column,
    examples_of,
    features_of,
    load_model,
    load_table,
    split_target,
    text_columns,
)
from bayespoint.cli.options import Columns, FileFormat, Settings, given_options
from bayespoint.cli.output import Output, UsageError, exit_codes, shown_name, shown_path
from bayespoint.cli.playground.scene import Scene, chosen_rows, dense, support_labels
from bayespoint.cli.playground.server import PlaygroundServer
from bayespoint.cli.settings import make_classifier
from bayespoint.cli.train import encode_examples, fit
from bayespoint.io.model_file import Model
from bayespoint.io.tables import Table, counted, printable

MODEL_ENDING = ".bpm"


def run_playground(
    file: Path | None, settings: Settings, columns: Columns, file_format: FileFormat, *,
    model_path: Path | None = None, target: str | None = None, port: int = 0, opens: bool = True,
) -> None:  # fmt: skip
    """Open the page from disk, or serve it with the rows of a file or of a model behind it."""
    with exit_codes():
        output = Output()
        of_training = given_options(settings) + given_options(columns)
        of_rows = [
            *(["--model"] if model_path is not None else []),
            *(["--target"] if target is not None else []), *given_options(file_format),
        ]  # fmt: skip
        _check_options(file, of_training, of_rows, ["--port"] if port else [])
        if file is None:
            _open_page(output, opens)
            return
        if file.suffix == MODEL_ENDING:
            scene = scene_of_model(load_model(file, option="FILE"), shown_name(file))
        elif model_path is not None:
            model = load_model(model_path)
            scene = _scene_of_rows(file, model, target, file_format, output)
        else:
            scene = _trained_scene(file, target, settings, columns, file_format, output)
        _serve(scene, output, port, opens)


def _check_options(
    file: Path | None, of_training: list[str], of_rows: list[str], of_server: list[str]
) -> None:
    """Refuse options that would say nothing here."""
    if file is None:
        if given := [*of_training, *of_rows, *of_server]:
            raise UsageError(f"{given[0]} works only with a file of data or a model: name one.")
    elif file.suffix == MODEL_ENDING and of_rows:
        raise UsageError(f"{of_rows[0]} is for rows of data, and {shown_name(file)} is a model.")
    elif of_training and (file.suffix == MODEL_ENDING or "--model" in of_rows):
        raise UsageError(f"{of_training[0]} is for training, and the model is trained already.")
    elif str(file) == "-" and not {"--target", "--model"}.intersection(of_rows):
        raise UsageError("--target is needed with data from standard input.")


def _open_page(output: Output, opens: bool) -> None:
    with as_file(files("bayespoint.cli.playground").joinpath("playground.html")) as path:
        output.say(f"Page: {shown_path(path)}")
        output.say("It is one file that needs no network: open it in any browser, or pass it on.")
        if opens:
            webbrowser.open(path.as_uri())


def _serve(scene: Scene, output: Output, port: int, opens: bool) -> None:
    output.say(f"Deciding about {counted(len(scene.X), 'row')} …")
    scene.decided  # noqa: B018  now, and not while the browser waits
    try:
        server = PlaygroundServer(scene, port)
    except OSError as error:
        raise UsageError(f"--port {port} cannot be used: {error.strerror}.") from None
    with server:
        output.say(f"Open {server.url}")
        output.say("For browsers on this machine. Ctrl-C stops it.")
        if opens:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            output.say("Stopped.")


# ---------------------------------------------------------------------- rows and models


def scene_of_model(model: Model, name: str) -> Scene:
    """Scene of the training rows that a model holds.

    Parameters
    ----------
    model : Model
    name : str
        Of its file.

    Returns
    -------
    Scene
    """
    base = base_of(model.classifier)
    _check_drawable(base.kernel_)
    X = dense(base.support_vectors_)
    if not len(X):
        raise UsageError(f"{name} holds no training rows: give data, and {name} as --model.")
    kept = chosen_rows(len(X))
    numbers, labels = base.support_[kept] + 1, support_labels(base, kept)
    return Scene(name, model.classifier, X[kept], _names(model), numbers, len(X), labels)


def _scene_of_rows(
    file: Path, model: Model, target: str | None, file_format: FileFormat, output: Output
) -> Scene:
    """Scene of rows of a file, with their classes if they are there."""
    _check_drawable(base_of(model.classifier).kernel_)
    classes_in = model.about.get("target") if target is None else target
    text = [
        name for name in (classes_in, *text_columns(model, file_format)) if isinstance(name, str)
    ]
    table = load_table(str(file), file_format, text=text)
    if target is not None:
        check_column(table, target, "--target")
    features, labels = table, None
    if classes_in in table.names:
        features, labels = split_target(table, str(classes_in))
    X, notes = features_of(model, features)
    output.note(*notes)
    return _scene(file, model, X, table, labels)


def _trained_scene(
    file: Path, target: str | None, settings: Settings, columns: Columns,
    file_format: FileFormat, output: Output,
) -> Scene:  # fmt: skip
    """Scene of a file whose rows a classifier is trained on first."""
    classifier = make_classifier(settings, verbose=1)
    drop = columns.drop or []
    if target is None:
        target = load_table(str(file), file_format, drop=drop).names[-1]
        output.note(
            f"classes are in '{printable(target)}', the last column; --target names another."
        )
    text = [target, *columns.text]
    table = load_table(str(file), file_format, text=text, drop=drop)
    features, labels = examples_of(table, target, columns)
    encoded = encode_examples(classifier, features, labels, target, columns, file_format)
    output.note(*encoded.notes)
    fit(classifier, encoded.X, labels, output, features)
    return _scene(file, Model(classifier, encoded.encoder, {}), encoded.X, table, labels)


def _scene(file: Path, model: Model, X: Array, table: Table, labels: Array | None) -> Scene:
    kept = chosen_rows(len(X))
    return Scene(
        shown_name(file), model.classifier, X[kept], _names(model), kept + 1, len(X),
        None if labels is None else labels[kept], table.rows(kept),
    )  # fmt: skip


def _names(model: Model) -> list[str]:
    if model.encoder is not None:
        return list(model.encoder.feature_names_)
    base = base_of(model.classifier)
    known = getattr(base, "feature_names_in_", None)
    return [f"x{k}" for k in range(base.n_features_in_)] if known is None else list(known)


def _check_drawable(kernel: object) -> None:
    if kernel == "precomputed":
        raise UsageError(
            "the model was fitted on a Gram matrix (kernel='precomputed'): there are no columns "
            "to draw."
        )
