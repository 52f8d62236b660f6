"""Datasets from the TFDS catalog, read from ArrayRecord files without TensorFlow.

A TFDS folder is untrusted data: TFDS would import the modules that its features.json names.
"""

import contextlib
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from configs.base import Config
from data.files import corpus_lock
from errors import UserError, first_line

# A dataset, its config and its version. TFDS also accepts arguments of the dataset's class, and
# namespaces such as huggingface:NAME, whose datasets may run code of their authors.
_NAME = re.compile(r"\w+(/[\w.+-]+)?(:\d+\.\d+\.\d+)?", re.ASCII)


def read_catalog(data: Config, split: str, features: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the examples of a split of the TFDS dataset `data.name`.

    `features` maps names of `config.data` fields, such as "source", to names of TFDS features. The
    dataset must contain all these features.
    """
    with _readable(data):
        yield from _examples(data, split, features)


def catalog_files(data: Config) -> list[Path]:
    """Return the files that describe the TFDS dataset: its version, splits, sizes and features."""
    with _readable(data):
        folder = Path(_prepared(data).data_path)
        return [folder / "dataset_info.json", folder / "features.json"]


def _examples(data: Config, split: str, features: dict[str, str]) -> Iterator[dict[str, Any]]:
    builder = _prepared(data)
    splits = builder.info.splits or {}
    if split not in splits:
        raise UserError(
            f"TFDS dataset {data.name} has no split {split!r}: "
            f"set the fields of data.splits to splits of the dataset ({', '.join(splits)})"
        )
    known = builder.info.features or {}
    for field, name in features.items():
        if name not in known:
            raise UserError(
                f"TFDS dataset {data.name} has no feature {name!r}: set data.{field} to one of "
                f"{', '.join(sorted(known))}"
            )
    yield from builder.as_data_source(split)


@contextlib.contextmanager
def _readable(data: Config) -> Iterator[None]:
    """Convert errors of TFDS, whose types are not documented, to UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        folder = data.dir or "its default data directory"
        raise UserError(
            f"TFDS cannot read {data.name} in {folder} ({type(error).__name__}: "
            f"{first_line(error)}): correct data.name and data.dir, or delete the folder of the "
            "dataset, and TFDS will prepare it again"
        ) from error


def _prepared(data: Config) -> Any:
    """Return the TFDS builder of the dataset, which is downloaded and prepared if necessary."""
    builder = _builder(data)
    if builder.is_prepared():
        return builder
    try:
        Path(data.cache).mkdir(parents=True, exist_ok=True)
        with corpus_lock(Path(data.cache) / "tfds.lock"):
            builder = _builder(data)  # another process may have prepared the dataset meanwhile
            builder.download_and_prepare()
    except OSError as error:
        raise UserError(
            f"TFDS could not download {data.name} ({error}): prepare it on a machine with network "
            "access, copy the TFDS data directory to this machine, and set --config.data.dir to it"
        ) from None
    return builder


def _builder(data: Config) -> Any:
    if not _NAME.fullmatch(data.name):
        raise UserError(
            f"data.name={data.name!r} is invalid: set it to a dataset of the TFDS catalog, "
            "optionally with a config and a version, such as wmt14_translate/de-en:1.0.0"
        )
    try:
        import tensorflow_datasets as tfds
        import tensorflow_datasets.text
        import tensorflow_datasets.translate
    except ImportError as error:
        raise UserError(
            f"data.corpus=tfds needs {error.name}, which is not installed: "
            "pip install -r requirements.txt"
        ) from error

    _refuse_foreign_features()
    try:
        folder: Any = data.dir or None
        return tfds.builder(data.name, data_dir=folder, file_format="array_record")
    except tfds.core.DatasetNotFoundError:
        raise UserError(
            f"TFDS has no dataset {data.name!r}: set data.name to a name from its catalog, such as "
            "wmt14_translate/de-en"
        ) from None
    except ValueError:
        name, _, config = data.name.partition(":")[0].partition("/")
        configs = tfds.builder_cls(name).builder_configs
        if config in configs:
            raise
        raise UserError(
            f"TFDS dataset {name} has no config {config!r}: set data.name to one of "
            f"{', '.join(f'{name}/{known}' for known in configs) or name}"
        ) from None


@functools.cache
def _refuse_foreign_features() -> None:
    """Make TFDS refuse feature classes of other packages, instead of importing their modules.

    TFDS resolves every class name of a features.json with `FeatureConnector.cls_from_name`.
    """
    from tensorflow_datasets import features

    resolve = features.FeatureConnector.cls_from_name

    def checked(name: Any) -> Any:
        if not str(name).startswith("tensorflow_datasets."):
            raise UserError(
                f"features.json of a TFDS dataset names the class {name!r}, which is not part of "
                "tensorflow_datasets and is not loaded: use a dataset of the TFDS catalog"
            )
        return resolve(name)

    setattr(features.FeatureConnector, "cls_from_name", staticmethod(checked))  # noqa: B010
