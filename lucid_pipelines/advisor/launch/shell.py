"""Reading shell scripts: which commands they run, with which words, without running anything."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from lucid_pipelines.advisor.evaluator.values import Lit, Origin
from lucid_pipelines.advisor.launch.shell_state import ShellCommand, ShellState, Variable
from lucid_pipelines.advisor.launch.shell_words import (
    arithmetic_value,
    expand,
    expand_text,
    expand_words,
    node_text,
    origin_at,
    partial_text,
)
from lucid_pipelines.advisor.metadata import SourceKind
from lucid_pipelines.advisor.source_tree import SourceTree

MAX_STEPS = 20_000
MAX_COMMANDS = 300
MAX_DEPTH = 8
_SBATCH = re.compile(r"^\s*#(?:SBATCH|PBS|BSUB|\$)\s+(.*)$")
_PLACEHOLDER = re.compile(r"<([\w ./:,|+-]{1,60})>")
_BLANK = re.compile(r"(?<==)<([A-Za-z][\w ./:,|+-]{0,59})>")
"""A blank to fill in, as a script's value: ``DATA=<path to data>``. Elsewhere in a script it may be a redirect."""
_SHELLS = ("bash", "sh", "zsh", "dash", "ksh")


@lru_cache(maxsize=1)
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def read_script(
    tree: SourceTree, file: str, words: Sequence[Lit], env: dict[str, Lit], cwd: str
) -> tuple[list[ShellCommand], dict[str, Lit]]:
    """Commands that a script of the snapshot runs, and the batch options in its head.

    Args:
        words: arguments of the script.
        env: variables that it inherits.
    """
    text = tree.read_text(file)
    if text is None:
        return [], {}
    state = _state(file, cwd, words, env)
    state.batch.update(batch_options(text, file))
    _Reader(tree).run_text(_BLANK.sub(_stand_in, text), state)
    _put_back(state)
    return state.commands, state.batch


def _stand_in(match: re.Match[str]) -> str:
    """A placeholder as one word that a shell would not take for redirects."""
    return f"\ue000{match.group(1).replace(' ', '_')}\ue001"


def _put_back(state: ShellState) -> None:
    for command in state.commands:
        for word in (*command.words, *command.env.values()):
            if isinstance(word.value, str) and "\ue000" in word.value:
                word.value = word.value.replace("\ue000", "<").replace("\ue001", ">")


def read_line(
    tree: SourceTree, line: str, env: dict[str, Lit], cwd: str, file: str = "<command>"
) -> list[ShellCommand]:
    """Commands of a launch line that is given as one text. ``<name>`` is a placeholder, not a redirect."""
    state = _state(file, cwd, (), env)
    _Reader(tree).run_text(_PLACEHOLDER.sub(_stand_in, line), state)
    _put_back(state)
    return state.commands


def batch_options(text: str, file: str) -> dict[str, Lit]:
    """``#SBATCH`` lines as options by name, without dashes."""
    found: dict[str, Lit] = {}
    for number, line in enumerate(text.split("\n")[:400], 1):
        match = _SBATCH.match(line)
        if match is None:
            continue
        words = match.group(1).split("#")[0].split()
        for name, value in option_pairs(words):
            found[name] = Lit(value, Origin(SourceKind.LAUNCHER, file, number, name))
    return found


def option_pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """``--name=value``, ``--name value``, ``-N value``, ``-N4`` as pairs."""
    pairs: list[tuple[str, str]] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-"):
            continue
        name, mark, value = word.lstrip("-").partition("=")
        if not mark and not word.startswith("--") and len(name) > 1 and name[1:].isdigit():
            name, value = name[0], name[1:]
        elif not mark and position < len(words) and not words[position].startswith("-"):
            value = words[position]
            position += 1
        pairs.append((name, value))
    return pairs


def _state(file: str, cwd: str, words: Sequence[Lit], env: dict[str, Lit]) -> ShellState:
    state = ShellState(file, cwd, file, positional=list(words))
    for name, value in env.items():
        state.variables[name] = Variable([str(value.value)], value.origin)
        state.exported.add(name)
    return state


_BARE_OPERATORS = ("==", "=~")
"""The grammar takes them for operators everywhere; outside of a test they are words like any other."""


def _is_bare_operator(command: Node, after: Node) -> bool:
    """Whether what the grammar could not place is the last word of the command before it."""
    is_same_line = after.start_point[0] == command.end_point[0]
    return after.type == "ERROR" and is_same_line and node_text(after).strip() in _BARE_OPERATORS


class _Reader:
    """Walks the syntax tree of a script."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree

    def run_text(self, text: str, state: ShellState) -> None:
        if len(text) > 400_000:
            return
        root = _parser().parse(text.encode("utf-8", errors="replace")).root_node
        self._block(root.children, state)

    def _block(self, nodes: Sequence[Node], state: ShellState) -> None:
        for node, after in zip(nodes, [*nodes[1:], None], strict=False):
            state.steps[0] += 1
            if state.steps[0] > MAX_STEPS or len(state.commands) >= MAX_COMMANDS:
                return
            if node.type == "command" and after is not None and _is_bare_operator(node, after):
                self._command(node, state, after)
            else:
                self._statement(node, state)

    def _statement(self, node: Node, state: ShellState) -> None:
        kind = node.type
        if kind == "command":
            self._command(node, state)
        elif kind == "variable_assignment":
            self._assign(node, state)
        elif kind == "declaration_command":
            self._declare(node, state)
        elif kind in ("list", "pipeline", "subshell", "compound_statement", "redirected_statement", "do_group",
            "negated_command", "ERROR", "variable_assignments"):  # fmt: skip
            self._block([child for child in node.children if child.is_named], state)
        elif kind == "if_statement":
            self._if(node, state)
        elif kind in ("while_statement", "until_statement"):
            self._while(node, state)
        elif kind in ("for_statement", "select_statement"):
            self._for(node, state)
        elif kind == "c_style_for_statement":
            self._uncertainly([child for child in node.children if child.type == "do_group"], state)
        elif kind == "case_statement":
            self._case(node, state)
        elif kind == "function_definition":
            names = [child for child in node.children if child.type == "word"]
            body = node.children[-1]
            if names:
                state.functions[node_text(names[0])] = body

    def _uncertainly(self, nodes: Sequence[Node], state: ShellState) -> None:
        state.uncertain += 1
        self._block(nodes, state)
        state.uncertain -= 1

    # ------------------------------------------------------------------ assignments

    def _assign(self, node: Node, state: ShellState) -> None:
        name_node = node.children[0]
        name = node_text(name_node).partition("[")[0]
        value = node.children[-1] if len(node.children) > 2 else None
        append = len(node.children) > 1 and node.children[1].type == "+="
        old = state.get(name)
        if value is not None and value.type == "array":
            words = expand_words([child for child in value.children if child.type not in ("(", ")", "comment")], state)
            made = Variable(
                [str(word.value) for word in words], origin_at(state, node), True, [word.origin for word in words]
            )
            if append and old is not None:
                made.items = [*old.items, *made.items]
                made.origins = [*(old.origins or [old.origin] * len(old.items)), *made.origins]
            state.variables[name] = made
            return
        text, origin = ("", origin_at(state, node)) if value is None else expand_text(value, state)
        partial = partial_text(value, state) if text is None and value is not None else None
        if append and old is not None:
            shown = partial if text is None else text
            partial = (old.text if old.text is not None else old.partial or "") + (shown or "")
            text = None if text is None or old.text is None else old.text + text
        if name_node.type == "subscript":
            return
        state.set(name, text, origin, partial)

    def _declare(self, node: Node, state: ShellState) -> None:
        exports = node.children[0].type in ("export", "declare", "typeset")
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                self._assign(child, state)
                if exports:
                    state.exported.add(node_text(child.children[0]))
            elif child.type == "variable_name" and exports:
                state.exported.add(node_text(child))

    # ------------------------------------------------------------------ control flow

    def _if(self, node: Node, state: ShellState) -> None:
        branches: list[tuple[Node | None, list[Node]]] = []
        condition: Node | None = None
        body: list[Node] = []
        seen_then = False
        for child in node.children:
            if child.type == "then":
                seen_then = True
            elif child.type in ("elif_clause", "else_clause"):
                branches.append(_clause(child))
            elif child.is_named:
                if not seen_then:
                    condition = child
                else:
                    body.append(child)
        branches.insert(0, (condition, body))
        for test, statements in branches:
            answer = True if test is None else self._test(test, state)
            if answer is True:
                self._block(statements, state)
                return
            if answer is None:
                self._uncertainly(statements, state)

    def _while(self, node: Node, state: ShellState) -> None:
        test = next((child for child in node.children if child.is_named), None)
        body = [child for child in node.children if child.type == "do_group"]
        for _ in range(60):
            answer = self._test(test, state) if test is not None else None
            before = len(state.positional)
            if answer is False:
                return
            if answer is None:
                self._uncertainly(body, state)
                return
            self._block(body, state)
            if len(state.positional) == before:
                # Nothing that the condition depends on changes here: an endless loop is read once.
                return

    def _for(self, node: Node, state: ShellState) -> None:
        name = next((node_text(child) for child in node.children if child.type == "variable_name"), None)
        body = [child for child in node.children if child.type == "do_group"]
        values = [
            child for child in node.children if child.is_named and child.type not in ("variable_name", "do_group")
        ]
        words = expand_words(values, state)
        for word in words[:8] or [Lit(None, None)]:
            if name is not None:
                state.set(name, None if word.value is None else str(word.value), word.origin)
            self._block(body, state)

    def _case(self, node: Node, state: ShellState) -> None:
        subject_node = next((child for child in node.children if child.is_named and child.type != "case_item"), None)
        subject = expand_text(subject_node, state)[0] if subject_node is not None else None
        for item in [child for child in node.children if child.type == "case_item"]:
            patterns: list[str] = []
            statements: list[Node] = []
            closed = False
            for child in item.children:
                if child.type == ")":
                    closed = True
                elif child.is_named and not closed:
                    patterns.append(node_text(child).strip("\"'"))
                elif child.is_named:
                    statements.append(child)
            if subject is None:
                self._uncertainly(statements, state)
            elif any(fnmatch.fnmatchcase(subject, pattern) for pattern in patterns):
                self._block(statements, state)
                return

    # ------------------------------------------------------------------ conditions

    def _test(self, node: Node, state: ShellState) -> bool | None:
        kind = node.type
        if kind == "list":
            return self._logic(node, state)
        if kind == "negated_command":
            inner = self._test(node.children[-1], state)
            return None if inner is None else not inner
        if kind in ("test_command", "parenthesized_expression"):
            text = node_text(node)
            if text.startswith("(("):
                return self._arithmetic_test(text[2:-2], state)
            inner = [child for child in node.children if child.is_named]
            return self._test(inner[0], state) if inner else None
        if kind == "unary_expression":
            return self._unary(node, state)
        if kind == "binary_expression":
            return self._binary(node, state)
        if kind == "command":
            return {"true": True, "false": False, ":": True}.get(node_text(node).strip())
        if kind in ("word", "string", "raw_string", "concatenation", "simple_expansion", "expansion"):
            text, _ = expand_text(node, state)
            return None if text is None else bool(text)
        return None

    def _logic(self, node: Node, state: ShellState) -> bool | None:
        left = self._test(node.children[0], state)
        right = self._test(node.children[-1], state)
        if any(child.type == "&&" for child in node.children):
            return False if False in (left, right) else (None if None in (left, right) else True)
        return True if True in (left, right) else (None if None in (left, right) else False)

    def _unary(self, node: Node, state: ShellState) -> bool | None:
        operator = node_text(node.children[0])
        operand = node.children[-1]
        if operator == "!":
            inner = self._test(operand, state)
            return None if inner is None else not inner
        text, _ = expand_text(operand, state)
        if operator in ("-z", "-n"):
            # An unset variable expands to nothing.
            is_empty = (text is None and "$" in node_text(operand) and "(" not in node_text(operand)) or text == ""
            return is_empty if operator == "-z" else not is_empty
        if operator in ("-f", "-d", "-e", "-s") and text is not None:
            path = self._tree.relative(text, state.cwd)
            found = path is not None and (self._tree.is_file(path) or self._tree.is_dir(path))
            return found and (operator != "-d" or (path is not None and self._tree.is_dir(path)))
        return None

    def _binary(self, node: Node, state: ShellState) -> bool | None:
        operator = node_text(node.children[1])
        if operator in ("&&", "||", "-a", "-o"):
            left, right = self._test(node.children[0], state), self._test(node.children[-1], state)
            if operator in ("&&", "-a"):
                return False if False in (left, right) else (None if None in (left, right) else True)
            return True if True in (left, right) else (None if None in (left, right) else False)
        left_text, _ = expand_text(node.children[0], state)
        right_text, _ = expand_text(node.children[-1], state)
        if left_text is None and "(" not in node_text(node.children[0]):
            left_text = ""
        if left_text is None or right_text is None:
            return None
        if operator in ("=", "==", "!="):
            same = fnmatch.fnmatchcase(left_text, right_text) if "*" in right_text else left_text == right_text
            return same if operator != "!=" else not same
        return _numeric_test(left_text, operator, right_text)

    def _arithmetic_test(self, text: str, state: ShellState) -> bool | None:
        value = arithmetic_value(text, state)
        return None if value is None else bool(value)

    # ------------------------------------------------------------------ commands

    def _command(self, node: Node, state: ShellState, rest: Node | None = None) -> None:
        env: dict[str, Lit] = {}
        parts: list[Node] = []
        for child in (*node.children, *((rest,) if rest is not None else ())):
            if child.type == "variable_assignment":
                text, origin = expand_text(child.children[-1], state) if len(child.children) > 2 else ("", None)
                if text is not None:
                    env[node_text(child.children[0])] = Lit(text, origin)
            elif child.type == "command_name":
                parts.extend(child.children)
            elif (
                child.type in _BARE_OPERATORS
                or child is rest
                or (
                    child.is_named
                    and child.type
                    not in (
                        "comment",
                        "file_redirect",
                        "heredoc_redirect",
                        "herestring_redirect",
                    )
                )
            ):
                parts.append(child)
        words = [word for part in parts for word in expand(part, state)]
        if words:
            self.run_words(words, env, state, node.start_point[0] + 1)

    def run_words(self, words: list[Lit], env: dict[str, Lit], state: ShellState, line: int) -> None:
        """One command after expansion: followed when it is a script or a builtin, else kept."""
        name = str(words[0].value)
        if name in ("exec", "command", "builtin", "then", "else", "do", "{") and len(words) > 1:
            self.run_words(words[1:], env, state, line)
            return
        if self._builtin(name, words, state):
            return
        if name in state.functions and state.depth < MAX_DEPTH:
            outer, state.positional = state.positional, words[1:]
            state.depth += 1
            self._block([state.functions[name]], state)
            state.depth -= 1
            state.positional = outer
            return
        kept = ShellCommand(words, {**state.environment(), **env}, state.cwd, state.uncertain == 0, state.file, line)
        script = self._script(words, state)
        if script is not None and state.depth < MAX_DEPTH:
            self._enter(script, kept, state)
            return
        state.commands.append(kept)

    def _builtin(self, name: str, words: list[Lit], state: ShellState) -> bool:
        if name in ("cd", "pushd") and len(words) > 1:
            path = self._tree.relative(str(words[1].value), state.cwd)
            if path is not None and self._tree.is_dir(path):
                state.cwd = path
            return True
        if name == "shift":
            count = int(str(words[1].value)) if len(words) > 1 and str(words[1].value).isdigit() else 1
            state.positional = state.positional[count:]
            return True
        if name == "set" and len(words) > 1 and str(words[1].value) == "--":
            state.positional = words[2:]
            return True
        if name in ("source", ".") and len(words) > 1:
            self._source(words, state)
            return True
        if name == "eval" and len(words) > 1 and state.depth < MAX_DEPTH:
            state.depth += 1
            self.run_text(" ".join(str(word.value) for word in words[1:]), state)
            state.depth -= 1
            return True
        return name in ("export", "unset", "echo", "set", "trap", "ulimit", "wait", "printf", "read", "true", "false",
            ":", "[", "module", "exit", "return", "sleep", "mkdir", "rm", "cp", "mv", "ls", "date", "cat", "tee",
            "local", "readonly", "which", "touch", "hostname", "tail", "head", "grep", "sed", "awk", "kill",
            "nvidia-smi", "conda", "ssh", "scp", "rsync", "wget", "curl", "tar", "unzip", "pip", "pip3", "chmod",
            "ln", "find", "sort", "git", "apt-get", "make", "cmake", "popd", "pushd", "basename", "dirname", "tr",
            "wc", "cut", "ray") and name not in ("conda",)  # fmt: skip

    def _source(self, words: list[Lit], state: ShellState) -> None:
        path = self._tree.relative(str(words[1].value), state.cwd)
        if posixpath.basename(str(words[1].value)) == "parse_options.sh":
            self._named_options(state)
            return
        text = self._tree.read_text(path) if path is not None and self._tree.is_file(path) else None
        if path is None or text is None or state.depth >= MAX_DEPTH:
            return
        outer_file, state.file = state.file, path
        state.depth += 1
        self.run_text(text, state)
        state.depth -= 1
        state.file = outer_file

    def _named_options(self, state: ShellState) -> None:
        """Kaldi's ``parse_options.sh``: ``--name value`` sets the variable ``name``."""
        while state.positional and str(state.positional[0].value).startswith("--"):
            name, mark, value = str(state.positional[0].value)[2:].partition("=")
            if mark:
                state.set(name.replace("-", "_"), value, state.positional[0].origin)
                state.positional = state.positional[1:]
            elif len(state.positional) > 1:
                word = state.positional[1]
                state.set(name.replace("-", "_"), str(word.value), word.origin)
                state.positional = state.positional[2:]
            else:
                return

    def _script(self, words: list[Lit], state: ShellState) -> tuple[str, list[Lit]] | None:
        """The script of the snapshot that a command runs, and its arguments."""
        name = str(words[0].value)
        rest = words
        if posixpath.basename(name) in _SHELLS:
            rest = words[1:]
            while rest and str(rest[0].value).startswith("-") and str(rest[0].value) != "-c":
                rest = rest[1:]
            if not rest or str(rest[0].value) == "-c":
                return None
        elif not name.endswith((".sh", ".bash")):
            return None
        path = self._tree.relative(str(rest[0].value), state.cwd)
        if path is None or not self._tree.is_file(path):
            return None
        return path, rest[1:]

    def _enter(self, script: tuple[str, list[Lit]], command: ShellCommand, state: ShellState) -> None:
        path, words = script
        text = self._tree.read_text(path)
        if text is None:
            return
        inner = ShellState(path, state.cwd, path, positional=words, depth=state.depth + 1, steps=state.steps)
        inner.uncertain = state.uncertain
        for name, value in command.env.items():
            inner.variables[name] = Variable([str(value.value)], value.origin)
            inner.exported.add(name)
        state.batch.update(batch_options(text, path))
        self.run_text(text, inner)
        state.commands.extend(inner.commands)


def _clause(node: Node) -> tuple[Node | None, list[Node]]:
    if node.type == "else_clause":
        return None, [child for child in node.children if child.is_named]
    condition: Node | None = None
    body: list[Node] = []
    seen_then = False
    for child in node.children:
        if child.type == "then":
            seen_then = True
        elif child.is_named and not seen_then:
            condition = child
        elif child.is_named:
            body.append(child)
    return condition, body


def _numeric_test(left: str, operator: str, right: str) -> bool | None:
    if not (re.fullmatch(r"-?\d{1,18}", left.strip()) and re.fullmatch(r"-?\d{1,18}", right.strip())):
        return None
    one, other = int(left), int(right)
    return {
        "-eq": one == other,
        "-ne": one != other,
        "-lt": one < other,
        "-le": one <= other,
        "-gt": one > other,
        "-ge": one >= other,
        "<": one < other,
        ">": one > other,
    }.get(operator)
