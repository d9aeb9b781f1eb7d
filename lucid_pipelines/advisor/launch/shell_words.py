"""Expansion of shell words: quotes, variables with defaults, arrays, arithmetic, simple substitutions."""

from __future__ import annotations

import ast
import fnmatch
import posixpath
import re
from dataclasses import dataclass

from tree_sitter import Node

from lucid_pipelines.advisor.configs.interpolation import evaluate_arithmetic
from lucid_pipelines.advisor.evaluator.values import Lit, Origin, Site
from lucid_pipelines.advisor.launch.shell_state import ShellState
from lucid_pipelines.advisor.metadata import SourceKind

MAX_WORD = 20_000
MAX_WORDS = 3_000


@dataclass(slots=True)
class Piece:
    """Part of a word. ``text`` is ``None`` when unknown; quoted text is not split.

    Attributes:
        partial: what is known of an unknown text, with ``${NAME}`` for the rest.
    """

    text: str | None
    origin: Origin | None
    quoted: bool
    name: str | None = None
    partial: str | None = None

    @property
    def shown(self) -> str | None:
        """The text, or what stands for it in a command."""
        if self.text is not None:
            return self.text
        return placeholder(self.name) if self.partial is None else self.partial


def node_text(node: Node) -> str:
    """The source text of a node."""
    return (node.text or b"").decode("utf-8", errors="replace")


def origin_at(state: ShellState, node: Node) -> Origin:
    """The origin of a text written in a script."""
    return Origin(SourceKind.COMMAND_LINE, state.file, node.start_point[0] + 1)


def expand_words(nodes: list[Node], state: ShellState) -> list[Lit]:
    """Words of a command after expansion and splitting."""
    words: list[Lit] = []
    for node in nodes:
        words.extend(expand(node, state))
        if len(words) > MAX_WORDS:
            break
    return words


def expand(node: Node, state: ShellState) -> list[Lit]:
    """One word of the script as zero or more words of the command."""
    listed = _list_expansion(node, state)
    if listed is not None:
        return listed
    pieces = pieces_of(node, state, quoted=False)
    here = origin_at(state, node)
    words: list[tuple[str, Origin | None]] = []
    current: str | None = None
    origin: Origin | None = None
    for piece in pieces:
        text = piece.shown
        if text is None:
            continue
        only_origin = piece.origin if len(pieces) == 1 else None
        if piece.quoted:
            current = (current or "") + text
            origin = origin or only_origin or here
            continue
        parts = re.split(r"[ \t\n]+", text)
        for number, part in enumerate(parts):
            if number > 0 and current is not None:
                words.append((current, origin))
                current = None
                origin = None
            if part or (number == 0 and current is not None):
                current = (current or "") + part
                origin = origin or only_origin or here
    if current is not None:
        words.append((current, origin))
    return [Lit(text[:MAX_WORD], where or here) for text, where in words]


def expand_text(node: Node, state: ShellState) -> tuple[str | None, Origin | None]:
    """A word as one text, as in an assignment; ``None`` when a part of it is unknown."""
    pieces = pieces_of(node, state, quoted=True)
    if any(piece.text is None for piece in pieces):
        return None, origin_at(state, node)
    origin = pieces[0].origin if len(pieces) == 1 and pieces[0].origin is not None else origin_at(state, node)
    return "".join(piece.text or "" for piece in pieces)[:MAX_WORD], origin


def partial_text(node: Node, state: ShellState) -> str:
    """A word as one text, with ``${NAME}`` for each part that is unknown."""
    return "".join(piece.shown or "" for piece in pieces_of(node, state, quoted=True))[:MAX_WORD]


def placeholder(name: str | None) -> str | None:
    """What stands for a variable that the launch must set from outside."""
    if name is None:
        return "${?}"
    # An unset variable of extra arguments is empty; others are set by whoever launches.
    return None if re.search(r"args|opts|options|extra|flags|debug|overrides", name, re.IGNORECASE) else f"${{{name}}}"


def _list_expansion(node: Node, state: ShellState) -> list[Lit] | None:
    """``"$@"``, ``$@``, ``${A[@]}``: several words."""
    inner = node
    if node.type == "string":
        parts = [child for child in node.children if child.type != '"']
        if len(parts) != 1:
            return None
        inner = parts[0]
    text = node_text(inner)
    if text in ("$@", "$*", "${@}", "${*}"):
        return list(state.positional)
    if match := re.fullmatch(r"\$\{@:(\d+)\}", text):
        return list(state.positional[max(0, int(match.group(1)) - 1) :])
    match = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}", text)
    if match is None:
        return None
    variable = state.get(match.group(1))
    if variable is None:
        return []
    words: list[Lit] = []
    for number, item in enumerate(variable.items):
        origin = variable.origins[number] if number < len(variable.origins) else variable.origin
        if item is None:
            words.append(Lit(placeholder(None), origin))
        elif variable.is_array or node.type == "string":
            words.append(Lit(item, origin))
        else:
            words.extend(Lit(part, origin) for part in item.split())
    return words


def pieces_of(node: Node, state: ShellState, *, quoted: bool) -> list[Piece]:
    """The parts of a word."""
    kind = node.type
    if kind == "raw_string":
        return [Piece(node_text(node)[1:-1], None, True)]
    if kind == "ansi_c_string":
        return [Piece(node_text(node)[2:-1], None, True)]
    if kind == "string":
        return _string_pieces(node, state)
    if kind == "concatenation":
        return [piece for child in node.children for piece in pieces_of(child, state, quoted=quoted)]
    if kind in ("simple_expansion", "expansion"):
        return [_expansion(node, state, quoted)]
    if kind in ("command_substitution", "process_substitution"):
        return [Piece(_substitution(node, state), origin_at(state, node), quoted)]
    if kind in ("arithmetic_expansion",):
        return [_arithmetic(node_text(node).strip()[3:-2], node, state)]
    if kind == "array":
        return [Piece(" ".join(str(word.value) for word in expand_words(_array_items(node), state)), None, True)]
    return [Piece(_unescape(node_text(node)), None, quoted)]


def _array_items(node: Node) -> list[Node]:
    return [child for child in node.children if child.type not in ("(", ")", "comment")]


def _string_pieces(node: Node, state: ShellState) -> list[Piece]:
    pieces: list[Piece] = []
    end = node.start_byte + 1
    source = node.text or b""
    for child in node.children:
        if child.type == '"':
            continue
        if child.start_byte > end:
            # Blanks between parts are not always nodes of their own.
            gap = source[end - node.start_byte : child.start_byte - node.start_byte]
            pieces.append(Piece(gap.decode("utf-8", errors="replace"), None, True))
        text = node_text(child)
        if child.type != "string_content" and text[:1].isspace():
            # The grammar counts a blank before an expansion to the expansion.
            pieces.append(Piece(text[: len(text) - len(text.lstrip())], None, True))
        if child.type == "string_content":
            pieces.append(Piece(re.sub(r'\\(["\\$`])', r"\1", node_text(child)).replace("\\\n", ""), None, True))
        else:
            pieces.extend(Piece(p.text, p.origin, True, p.name) for p in pieces_of(child, state, quoted=True))
        end = child.end_byte
    return pieces or [Piece("", None, True)]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "" if m.group(1) == "\n" else m.group(1), text.replace("\\\n", ""))


def _expansion(node: Node, state: ShellState, quoted: bool) -> Piece:
    text = node_text(node).strip()
    body = text[2:-1] if text.startswith("${") else text[1:]
    match = re.match(r"(#?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])(\[[^\]]*\])?", body)
    if match is None:
        return Piece(None, None, quoted)
    length, name, index = match.groups()
    rest = body[match.end() :]
    value, origin = _variable(name, index, state)
    if length and name not in ("", "#"):
        return Piece(_length(name, index, state), origin, quoted, name)
    if rest:
        value, origin = _modified(value, origin, name, rest, node, state)
    variable = state.get(name) if value is None and index is None and not rest else None
    return Piece(value, origin, quoted, name, variable.partial if variable is not None else None)


def _variable(name: str, index: str | None, state: ShellState) -> tuple[str | None, Origin | None]:
    if name == "#":
        return str(len(state.positional)), None
    if name == "0":
        return state.script, None
    if name.isdigit():
        position = int(name) - 1
        if position < len(state.positional):
            word = state.positional[position]
            return str(word.value), word.origin
        return None, None
    if name in ("@", "*"):
        return " ".join(str(word.value) for word in state.positional), None
    if name in ("?", "!", "$", "-"):
        return None, None
    if name == "PWD":
        return state.cwd or ".", None
    if name == "BASH_SOURCE":
        return state.script, None
    variable = state.get(name)
    if variable is None:
        return None, None
    if index is None:
        return variable.text, variable.origin
    inner = index[1:-1].strip()
    if inner in ("@", "*"):
        return None if None in variable.items else " ".join(item or "" for item in variable.items), variable.origin
    position_text = _variable(inner.lstrip("$"), None, state)[0] if not inner.isdigit() else inner
    if position_text is not None and position_text.isdigit() and int(position_text) < len(variable.items):
        return variable.items[int(position_text)], variable.origin
    return None, variable.origin


def _length(name: str, index: str | None, state: ShellState) -> str | None:
    variable = state.get(name)
    if variable is None:
        return None
    if index in ("[@]", "[*]"):
        return str(len(variable.items))
    return None if variable.text is None else str(len(variable.text))


def _modified(
    value: str | None, origin: Origin | None, name: str, rest: str, node: Node, state: ShellState
) -> tuple[str | None, Origin | None]:
    """``${VAR:-default}``, ``${VAR%suffix}``, ``${VAR/a/b}``, …"""
    match = re.match(r"(:?[-=+?]|##?|%%?|//?|\^\^?|,,?|:)", rest)
    if match is None:
        return value, origin
    mark = match.group(1)
    argument = rest[match.end() :]
    missing = value is None or (mark.startswith(":") and value == "")
    if mark in (":-", "-", ":=", "="):
        if not missing:
            return value, origin
        text = _inner_text(node, argument, state)
        if mark.endswith("="):
            state.set(name, text, origin_at(state, node))
        return text, origin_at(state, node)
    if mark in (":+", "+"):
        return ("" if missing else _inner_text(node, argument, state)), origin
    if value is None or mark.endswith("?"):
        return value, origin
    if mark not in ("/", "//") or "$" in argument:
        argument = _inner_text(node, argument, state) or ""
    return _edited(value, mark, argument), origin


def _inner_text(node: Node, argument: str, state: ShellState) -> str | None:
    """The text after the mark of an expansion; nested expansions are followed."""
    named = [
        child
        for child in node.children
        if child.type not in ("${", "}", "variable_name", "subscript", "special_variable_name")
        and not re.fullmatch(r":?[-=+?]|##?|%%?|//?|\^\^?|,,?|:", child.type)
    ]
    if named:
        parts = [piece for child in named for piece in pieces_of(child, state, quoted=True)]
        if any(piece.text is None for piece in parts):
            return None
        return "".join(piece.text or "" for piece in parts)
    return argument.strip("\"'")


def _edited(value: str, mark: str, argument: str) -> str | None:
    if mark in ("^^", "^"):
        return value.upper() if mark == "^^" else value[:1].upper() + value[1:]
    if mark in (",,", ","):
        return value.lower() if mark == ",," else value[:1].lower() + value[1:]
    if mark == ":":
        numbers = re.fullmatch(r"\s*(-?\d+)(?::(-?\d+))?", argument)
        if numbers is None:
            return None
        start = int(numbers.group(1))
        return value[start:] if numbers.group(2) is None else value[start : start + int(numbers.group(2))]
    if len(value) > 2_000 or len(argument) > 200:
        return None
    if mark in ("/", "//"):
        old, _, new = argument.partition("/")
        return value.replace(old, new) if mark == "//" else value.replace(old, new, 1)
    return _trimmed(value, mark, argument)


def _trimmed(value: str, mark: str, pattern: str) -> str:
    cuts = range(len(value) + 1)
    if mark.startswith("#"):
        for cut in reversed(cuts) if mark == "##" else cuts:
            if fnmatch.fnmatchcase(value[:cut], pattern):
                return value[cut:]
    else:
        for cut in cuts if mark == "%%" else reversed(cuts):
            if fnmatch.fnmatchcase(value[cut:], pattern):
                return value[:cut]
    return value


def _arithmetic(text: str, node: Node, state: ShellState) -> Piece:
    """``$(( … ))``: whole-number arithmetic on known variables."""
    origin = origin_at(state, node)
    value = arithmetic_value(text, state)
    return Piece(None if value is None else str(value), origin, True)


def arithmetic_value(text: str, state: ShellState) -> int | None:
    """The value of a shell arithmetic expression, or ``None``."""
    names: dict[str, Lit] = {}

    def stand_in(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2) or match.group(3)
        value, _ = _variable(name, None, state)
        if value is None or not re.fullmatch(r"\s*-?\d{1,18}\s*", value):
            raise LookupError(name)
        names[f"v_{name}"] = Lit(int(value))
        return f"v_{name}"

    try:
        replaced = re.sub(r"\$\{(\w+)\}|\$(\w+)|(?<![\w$])([A-Za-z_]\w*)", stand_in, text)
        tree = ast.parse(replaced.replace("/", "//").strip(), mode="eval").body
    except (LookupError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    result = evaluate_arithmetic(tree, names, Site(state.file, 0))
    return int(result.value) if isinstance(result, Lit) and isinstance(result.value, int | float) else None


def _substitution(node: Node, state: ShellState) -> str | None:
    """``$(…)`` for the few commands whose output follows from their words."""
    source = node_text(node)
    inner = source[2:-1] if source.startswith("$(") else source[1:-1]
    inner = inner.strip()
    if re.fullmatch(r"pwd", inner):
        return state.cwd or "."
    if re.search(r"\bcd\b.*dirname.*(BASH_SOURCE|\$0|\$\{0).*pwd", inner, re.DOTALL):
        return _climbed(inner, posixpath.dirname(state.file))
    if match := re.fullmatch(r"(dirname|basename|realpath|readlink -f)\s+(.+)", inner, re.DOTALL):
        words = _words_inside(node, state)
        if not words:
            return None
        argument = words[-1]
        if match.group(1) == "dirname":
            if argument in (state.script, state.file):
                return posixpath.dirname(state.file) or "."
            return posixpath.dirname(argument) or "."
        return posixpath.basename(argument) if match.group(1) == "basename" else argument
    if inner.startswith(("echo", "expr")) or "wc -l" in inner or "wc -w" in inner:
        return _counted(inner, node, state)
    return None


def _climbed(inner: str, folder: str) -> str:
    ups = len(re.findall(r"/\.\.", inner))
    for _ in range(ups):
        folder = posixpath.dirname(folder)
    return folder or "."


def _words_inside(node: Node, state: ShellState) -> list[str]:
    for child in node.children:
        if child.type == "command":
            return [
                str(word.value)
                for part in child.children
                for word in expand(part, state)
                if part.type != "command_name"
            ]
    return []


def _counted(inner: str, node: Node, state: ShellState) -> str | None:
    """``echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l`` and ``expr $A \\* $B``."""
    if inner.startswith("expr"):
        value = arithmetic_value(inner[4:].replace("\\*", "*").replace('"', ""), state)
        return None if value is None else str(value)
    first = next((child for child in node.children if child.type in ("command", "pipeline")), None)
    command = first
    if first is not None and first.type == "pipeline":
        command = next((child for child in first.children if child.type == "command"), None)
    if command is None:
        return None
    pieces = [
        piece
        for child in command.children
        if child.type != "command_name"
        for piece in pieces_of(child, state, quoted=False)
    ]
    if not pieces or any(piece.text is None for piece in pieces):
        return None
    text = " ".join(piece.text or "" for piece in pieces if piece.text not in ("-e", "-n"))
    if "wc -l" in inner or "wc -w" in inner:
        return str(len([part for part in re.split(r"[,\s]+", text) if part]))
    return None if "|" in inner else text
