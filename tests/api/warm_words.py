# SPDX-License-Identifier: GPL-2.0-only
"""Programs as those of warm_programs.py, whose requests bring arguments and variables."""

WORDS = [
    (
        "python", "arguments",
        "import sys\nprint(sys.argv, sys.orig_argv, [type(a) for a in sys.argv])",
        {"args": ["a", "b c", "", "-x", "\u00e9\u4e2d\U0001f600", "x" * 5000]},
    ),
    (
        "python", "variables",
        (
            "import os, posix\n"
            "print(list(os.environ.items()), os.getenv('NAME'), os.environb[b'OTHER'], len(os.environ))\n"
            "print(posix.environ is os.environ._data, list(posix.environ.items()))"
        ),
        {"env": {"NAME": "a value", "EMPTY": "", "OTHER": "\u00e9=\n;", "_x1": "y" * 5000}},
    ),
    (
        "python", "variables of the C library",
        (
            "import ctypes\n"
            "c = ctypes.CDLL(None)\n"
            "c.getenv.restype = ctypes.c_char_p\n"
            "print(c.getenv(b'NAME'), c.getenv(b'HOME'), c.getenv(b'NONE'))\n"
            "e = ctypes.POINTER(ctypes.c_char_p).in_dll(c, 'environ')\n"
            "print([e[i] for i in range(10)])"
        ),
        {"env": {"NAME": "a value", "OTHER": "b"}},
    ),
    (
        "python", "words of a child",
        (
            "import os, subprocess, sys\n"
            "subprocess.run(['env'])\n"
            "subprocess.run([sys.executable, '-c', 'import os; print(list(os.environ.items()))'])\n"
            "os.system('echo $NAME $OTHER')\n"
            "del os.environ['NAME']; os.environ['OTHER'] = 'c'\n"
            "os.system('echo $NAME $OTHER')\n"
            "os.execv('/usr/bin/env', ['env'])"
        ),
        {"env": {"NAME": "a value", "OTHER": "b"}, "args": ["x"]},
    ),
    (
        "python", "words, and what could show them",
        (
            "import sys, gc, threading\n"
            "print(sorted(sys.modules), sorted(globals()), sys.getrefcount(sys.argv), threading.active_count())\n"
            "print([f for f in ('words', 'word', 'env', 'args') if f in vars(sys.modules['builtins'])])\n"
            "import traceback; traceback.print_stack(); 1/0"
        ),
        {"env": {"NAME": "v"}, "args": ["x"]},
    ),
    (
        "python", "many words",
        "import os, sys\nprint(len(sys.argv), sum(map(len, sys.argv)), sum(map(len, os.environ.values())))",
        {"env": {f"N{i}": "v" * 500 for i in range(100)}, "args": ["w" * 100] * 200},
    ),
    (
        "python", "words and an argument parser",
        (
            "import argparse\n"
            "p = argparse.ArgumentParser()\n"
            "p.add_argument('n', type=int)\n"
            "p.add_argument('--flag', action='store_true')\n"
            "print(p.parse_args(), p.prog)"
        ),
        {"args": ["7", "--flag"]},
    ),
    (
        "node", "arguments",
        (
            "const {argv, execArgv, argv0, title} = process;\n"
            "console.log(argv, argv.map(a => a.length), execArgv, argv0, title, Array.isArray(argv));\n"
            "console.log(Object.getOwnPropertyDescriptor(process, 'argv'), Reflect.ownKeys(argv),"
            " Object.isExtensible(argv), require('util').inspect(argv, {showHidden: true}));\n"
            "argv.push('more'); console.log(process.argv.at(-1), process.argv === argv, typeof argv[2]);"
        ),
        {"args": ["a", "b c", "", "-x", "--inspect", "\u00e9\u4e2d\U0001f600", "x" * 5000]},
    ),
    (
        "node", "arguments of a parser, a child and a worker",
        (
            "const {parseArgs} = require('util'), {Worker} = require('worker_threads');\n"
            "console.log(parseArgs({options: {name: {type: 'string', short: 'n'}}, allowPositionals: true}));\n"
            "const {spawnSync} = require('child_process');\n"
            "console.log(spawnSync(process.execPath, ['-p', 'process.argv.length', ...process.argv]).stdout + '');\n"
            "const argv = process.argv.slice(2);\n"
            "new Worker('console.log(process.argv.slice(2), process.env.NAME)', {eval: true, argv});"
        ),
        {"args": ["-n", "x", "y"], "env": {"NAME": "a value"}},
    ),
    (
        "node", "as many arguments as may be, and an error",
        "console.log(process.argv.length, process.argv.join('').length); throw new Error(process.argv[255])",
        {"args": ["w" * 100 + str(i) for i in range(256)]},
    ),
    (
        "node", "variables",
        (
            "console.log(Object.entries(process.env), process.env.NAME, 'EMPTY' in process.env, process.argv);"
            "delete process.env.NAME; process.env.OTHER = 'c'; console.log(process.env.NAME, process.env.OTHER)"
        ),
        {"env": {"NAME": "a value", "EMPTY": "", "OTHER": "\u00e9=\n;", "_x1": "y" * 5000}},
    ),
    (
        "node", "variables of a child and of a worker",
        (
            "const {execSync} = require('child_process'); const {Worker} = require('worker_threads');"
            "console.log(execSync('env | sort').toString());"
            "new Worker('console.log(Object.keys(process.env))', {eval: true});"
        ),
        {"env": {"NAME": "a value", "OTHER": "b"}},
    ),
    (
        "node", "many variables",
        "console.log(Object.keys(process.env).length, Object.values(process.env).join('').length)",
        {"env": {f"N{i}": "v" * 500 for i in range(100)}},
    ),
    (
        "node", "variables and an error on the first line",
        "const x = process.env.NAME; null.x",
        {"env": {"NAME": "v"}},
    ),
]
