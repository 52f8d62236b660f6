"""Datasets from the TFDS catalog, read from ArrayRecord files without TensorFlow."""

from collections.abc import Iterator
from typing import Any

from configs.base import Config
from errors import UserError


def read_catalogue(data: Config, split: str, features: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the examples of a split of the TFDS dataset `data.name`.

    `features` maps names of `config.data` fields, such as "source", to names of TFDS features. The
    dataset must contain all these features.
    """
    builder = _builder(data)
    try:
        builder.download_and_prepare()  # a dataset that is already prepared is not changed
    except OSError as error:
        raise UserError(
            f"TFDS could not download {data.name} ({error}): prepare it on a machine with network "
            "access, copy the TFDS data directory to this machine, and set --config.data.dir to it"
        ) from None
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


def _builder(data: Config) -> Any:
    try:
        import tensorflow_datasets as tfds
        import tensorflow_datasets.text
        import tensorflow_datasets.translate
    except ImportError as error:
        raise UserError(
            f"data.corpus=tfds needs {error.name}, which is not installed: "
            "pip install -r requirements.txt"
        ) from error

    try:
        folder: Any = data.dir or None
        return tfds.builder(data.name, data_dir=folder, file_format="array_record")
    except tfds.core.DatasetNotFoundError:
        raise UserError(
            f"TFDS has no dataset {data.name!r}: set data.name to a name from its catalog, such as "
            "wmt14_translate/de-en"
        ) from None
    except ValueError:
        name, _, config = data.name.partition("/")
        configs = tfds.builder_cls(name).builder_configs
        if config in configs:
            raise
        raise UserError(
            f"TFDS dataset {name} has no config {config!r}: set data.name to one of "
            f"{', '.join(f'{name}/{known}' for known in configs) or name}"
        ) from None
