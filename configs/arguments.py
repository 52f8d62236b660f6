"""The arguments of a config file, which follow the colon in --config=file.py:a=1,b=2."""

from collections.abc import Iterable

from errors import UserError, suggest


def parse(text: str | None, **legal: Iterable[str]) -> dict[str, str]:
    """Parse "name=value,..."; a name that `text` lacks gets its first value in `legal`.

    >>> parse("score=dot", score=("general", "dot"), size=("tiny", "paper"))
    {'score': 'dot', 'size': 'tiny'}
    """
    choices = {name: tuple(values) for name, values in legal.items()}
    given: dict[str, str] = {}
    for item in filter(None, (text or "").split(",")):
        name, equals, value = item.partition("=")
        if name in choices and not equals:
            raise UserError(f"config argument {name} has no value: write {name}=VALUE")
        if name not in choices:
            raise UserError(
                f"config argument {item!r} is unknown: {suggest(name, choices)}write name=value, "
                f"where name is one of {', '.join(choices)}"
            )
        if name in given:
            raise UserError(
                f"config argument {name} is given twice: {given[name]} and {value}; remove one"
            )
        if value not in choices[name]:
            raise UserError(
                f"config argument {name}={value} is unknown: {suggest(value, choices[name])}use "
                f"one of {', '.join(choices[name])}"
            )
        given[name] = value
    return {name: given.get(name, values[0]) for name, values in choices.items()}
