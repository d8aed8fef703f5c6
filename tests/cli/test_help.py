"""The help of every command lists its options in groups and ends with an example that the command accepts."""

import shlex

import pytest
import typer

from setwise.cli.help import COMMAND_GROUPS, EXAMPLES, OPTION_GROUPS
from setwise.cli.main import COMMANDS, app

GROUP = typer.main.get_command(app)


def leaves(command, path):
    """Yield every command without commands of its own, with the words that call it."""
    commands = getattr(command, "commands", None)
    if commands is None:
        yield path, command
        return
    for name in commands:
        yield from leaves(commands[name], (*path, name))


LEAVES = dict(leaves(GROUP, ()))


def help_text(path):
    context = None
    command = GROUP
    for name in ("setwise", *path):
        command = command if name == "setwise" else command.commands[name]
        context = command.context_class(command, info_name=name, parent=context)
    return command.get_help(context)


def test_the_list_names_every_command_once():
    assert sorted(name for names in COMMAND_GROUPS.values() for name in names if name in COMMANDS) == sorted(COMMANDS)


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_has_an_example_that_it_accepts(path):
    example = EXAMPLES[" ".join(path)]
    assert help_text(path).rstrip().endswith(example)
    words = shlex.split(example)
    assert words[: 1 + len(path)] == ["setwise", *path]
    command = LEAVES[path]
    parser = command.make_parser(command.context_class(command))
    options, left_over, _ = parser.parse_args(args=words[1 + len(path) :])
    assert not [word for word in left_over if word.startswith("-")]
    required = {parameter.name for parameter in command.params if parameter.required}
    assert required <= set(options) | {"table"}


def test_the_options_of_a_question_stand_in_groups_with_rare_ones_last():
    text = help_text(("histogram",))
    places = [text.index(f"\n{title}:\n") for title in OPTION_GROUPS if f"\n{title}:\n" in text]
    assert len(places) >= 5
    assert places == sorted(places)
    assert text.index("--user") < text.index("--limit") < text.index("--epsilon") < text.index("--mechanism")
    assert text.index("--account") < text.index("--json") < text.index("Example:")
    options = {name for name in LEAVES[("histogram",)].params if name.param_type_name == "option"}
    known = {name for names in OPTION_GROUPS.values() for name in names} | {"help"}
    assert {option.name for option in options} <= known


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_no_long_list_of_options_is_left_without_groups(path):
    """A command with more than seven options of its own groups all of them."""
    options = [option.name for option in LEAVES[path].params if option.param_type_name == "option"]
    if len(options) <= 7:
        assert "\nOther options:\n" not in help_text(path) or "user" in options
        return
    others = help_text(path).partition("\nOther options:\n")[2].partition("\nExample:")[0]
    assert others.split()[:1] == ["--help"]
    assert "\nOptions:\n" not in help_text(path)
