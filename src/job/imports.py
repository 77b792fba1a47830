# SPDX-License-Identifier: GPL-2.0-only
"""imports.py - which modules of those in the arguments does the program "code" import?

Runs in: a sandbox of its own, before the program is run in another. Nothing of the program is
executed here: it is parsed, and the tree is walked without recursion. One line tells:

    clean             none of them
    syntax            it is no program: python says so better when it is run
    blocked NAME...   these, in the order they come
    refused WHY       nobody can tell, so it must not run

Only modules that are built into the interpreter are imported, so that this is quick.
"""
import _ast
import sys

ONLY_AST = 1024  # of the module ast, which would be read from files
IMPORTERS = ("__import__", "import_module")
ROWS = (_ast.Tuple, _ast.List, _ast.Set)
FUNCTIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.Lambda)
LOOPS = (_ast.For, _ast.AsyncFor, _ast.comprehension)


def walk(tree):
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, _ast.AST):
                    todo.append(child)


def literal(node):
    """The text of a string, also of f"os" and f"{'os'}"; None: it is not known before."""
    if isinstance(node, _ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, _ast.FormattedValue) and node.conversion == -1 and not node.format_spec:
        return literal(node.value)
    if isinstance(node, _ast.JoinedStr):
        parts = [literal(part) for part in node.values]
        return None if None in parts else "".join(parts)
    return None


def is_importer(node, names):
    """Is this __import__ or import_module, of whatever object, or a name for one of them?"""
    while isinstance(node, _ast.NamedExpr):
        node = node.value
    if isinstance(node, _ast.Name):
        return node.id in names
    return isinstance(node, _ast.Attribute) and node.attr in IMPORTERS


def imported_names(node):
    """Those of the functions that "from ... import ..." gives the program."""
    for alias in node.names:
        if alias.name in IMPORTERS:
            yield alias.asname or alias.name
        elif alias.name == "*" and node.module == "importlib":
            yield from IMPORTERS


def defaults(args):
    """The parameters of a function that have a value, with that."""
    plain = args.posonlyargs + args.args
    yield from zip(plain[len(plain) - len(args.defaults):], args.defaults)
    yield from zip(args.kwonlyargs, args.kw_defaults)


def assigned(node):
    """Which name gets which value here: pairs of nodes."""
    if isinstance(node, _ast.Assign):
        todo = [(target, node.value) for target in node.targets]
    elif isinstance(node, (_ast.AnnAssign, _ast.NamedExpr)):
        todo = [(node.target, node.value)]
    elif isinstance(node, LOOPS) and isinstance(node.iter, ROWS):
        todo = [(node.target, value) for value in node.iter.elts]
    elif isinstance(node, FUNCTIONS):
        todo = [(_ast.Name(arg.arg), value) for arg, value in defaults(node.args)]
    else:
        return
    while todo:
        target, value = todo.pop()
        if isinstance(target, ROWS) and isinstance(value, ROWS):
            todo += zip(target.elts, value.elts)
        elif isinstance(target, _ast.Name):
            yield target.id, value


def importer_names(nodes):
    """The names that functions which import have in this program."""
    names, pairs, more = {"__import__"}, [], True
    for node in nodes:
        if isinstance(node, _ast.ImportFrom):
            names.update(imported_names(node))
        pairs += assigned(node)
    while more:
        new = {name for name, value in pairs if is_importer(value, names)} - names
        names |= new
        more = bool(new)
    return names


def flat(row):
    """The values of a row, with those of *[...] in it, up to what is not known."""
    for node in row:
        if not isinstance(node, _ast.Starred):
            yield node
        elif isinstance(node.value, ROWS):
            yield from flat(node.value.elts)
        else:
            return


def keywords(node):
    """The values that a call has by name, with those of **{...}."""
    for k in node.keywords:
        if k.arg:
            yield k.arg, k.value
        elif isinstance(k.value, _ast.Dict):
            yield from zip(map(literal, k.value.keys), k.value.values)


def asked_by_call(node):
    """What __import__(...) or import_module(...) is given, where that stands there."""
    given = {name: literal(value) for name, value in keywords(node)}
    given.update(zip(("name", "package"), map(literal, flat(node.args))))
    name, package = given.get("name"), given.get("package")
    if name and name.startswith(".") and package:
        name = package + name
    return [name] if name else []


def asked(node, names):
    """The modules that a node imports, by their whole names."""
    if isinstance(node, _ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, _ast.ImportFrom) and node.level == 0:
        return [node.module] + [node.module + "." + alias.name for alias in node.names]
    if isinstance(node, _ast.Call) and is_importer(node.func, names):
        return asked_by_call(node)
    return []


def blocked_imports(tree, blocked):
    nodes, found = list(walk(tree)), []
    names = importer_names(nodes)
    for node in nodes:
        for name in asked(node, names):
            for entry in blocked:
                if name == entry or name.startswith(entry + "."):
                    found.append((node.lineno, node.col_offset, entry))
    return list(dict.fromkeys(entry for _, _, entry in sorted(found, key=lambda f: f[:2])))


def look(blocked):
    with open("code", "rb") as f:
        source = f.read()
    if b"\0" in source:  # versions differ in what they run of it
        return "refused it has null bytes"
    # a variable can raise it for the program, to which this is no mistake then
    getattr(sys, "set_int_max_str_digits", lambda n: None)(0)
    try:
        tree = compile(source, "code", "exec", ONLY_AST, dont_inherit=True)
    except SyntaxError:
        return "syntax"
    found = blocked_imports(tree, blocked)
    return "blocked " + " ".join(found) if found else "clean"


try:
    said = look(sys.argv[1:])
except RecursionError:
    said = "refused it is nested too deeply"
except MemoryError:
    said = "refused it is too large, or nested too deeply"
except Exception as e:
    said = "refused " + type(e).__name__
print(said)
