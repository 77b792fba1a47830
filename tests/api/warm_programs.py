# SPDX-License-Identifier: GPL-2.0-only
"""Programs that must not see whether their sandbox was waiting: (language, name, code, fields)."""

from support import b64
from warm_words import WORDS

PROGRAMS = [
    (
        "python", "the module",
        "print(__name__, __file__, __doc__, __package__, __spec__, __cached__, sorted(globals()))",
        {},
    ),
    (
        "python", "its loader",
        "print(type(__loader__).__name__, __loader__.name, __loader__.path, __builtins__)",
        {},
    ),
    (
        "python", "a docstring",
        "\"\"\"What it is.\"\"\"\nprint(__doc__, __annotations__)\nx: int = 1\nprint(__annotations__)",
        {},
    ),
    (
        "python", "sys",
        (
            "import sys\n"
            "print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.executable, sys.prefix, sys.warnoptions)\n"
            "print(sys.stdin.encoding, sys.stdout.encoding, sys.stdout.line_buffering, sys.dont_write_bytecode)"
        ),
        {},
    ),
    (
        "python", "modules",
        "import sys\nprint(sorted(sys.modules), sorted(sys.path_importer_cache))",
        {},
    ),
    (
        "python", "hooks",
        (
            "import sys, threading, atexit\n"
            "print(sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile(), "
            "sys.displayhook is sys.__displayhook__, atexit._ncallbacks(), "
            "len(threading.enumerate()), threading.main_thread().name)"
        ),
        {},
    ),
    (
        "python", "signals",
        (
            "import signal\n"
            "for s in sorted(signal.valid_signals()):\n"
            "    print(s, signal.getsignal(s))\n"
            "print(signal.pthread_sigmask(0, []))"
        ),
        {},
    ),
    (
        "python", "descriptors",
        (
            "import os, stat\n"
            "for f in range(64):\n"
            "    try: print(f, stat.filemode(os.fstat(f).st_mode), os.get_inheritable(f))\n"
            "    except OSError: pass"
        ),
        {},
    ),
    (
        "python", "environment",
        (
            "import os\n"
            "print(sorted(os.environ.items()))\n"
            "print(sorted(open('/proc/self/environ').read().split('\\0')))"
        ),
        {},
    ),
    (
        "python", "command line",
        "print(open('/proc/self/cmdline').read().split('\\0'), open('/proc/self/comm').read())",
        {},
    ),
    (
        "python", "process",
        (
            "import os\n"
            "print(os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), os.getuid(), os.getgid(), "
            "os.getgroups(), os.getcwd(), os.nice(0), os.sched_getscheduler(0), os.umask(0))"
        ),
        {},
    ),
    (
        "python", "processes",
        "import os\nprint(sorted(p for p in os.listdir('/proc') if p.isdigit()))",
        {},
    ),
    (
        "python", "limits",
        (
            "import resource as r\n"
            "for n in sorted(x for x in dir(r) if x.startswith('RLIMIT')):\n"
            "    print(n, r.getrlimit(getattr(r, n)))"
        ),
        {},
    ),
    (
        "python", "rights",
        (
            "print([l for l in open('/proc/self/status') if l.startswith(('Cap', 'NoNew', 'Seccomp', "
            "'Uid', 'Gid', 'Groups', 'Sig', 'Shd', 'Threads', 'CoreD'))])"
        ),
        {},
    ),
    (
        "python", "files",
        (
            "import os\n"
            "for d in ('.', '/tmp', '/dev/shm', '/work/output'):\n"
            "    for n in sorted(os.listdir(d)):\n"
            "        s = os.stat(os.path.join(d, n)); print(d, n, oct(s.st_mode), s.st_uid, "
            "s.st_nlink, s.st_size if not os.path.isdir(os.path.join(d, n)) else '')"
        ),
        {"files": {"a/b": b64(b"x"), "c": b64(b"yy")}},
    ),
    (
        "python", "its own source",
        (
            "import inspect\n"
            "def f():\n"
            "    return 1  # here\n"
            "print(inspect.getsource(f), open(__file__).read(), __file__)"
        ),
        {},
    ),
    (
        "python", "a traceback",
        "def f(x):\n    return 1 / x\n\ndef g():\n    f(0)\ng()\n",
        {},
    ),
    (
        "python", "a chained traceback",
        "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b\\u00e9') from e\n",
        {},
    ),
    (
        "python", "a syntax error",
        "x = 1\nif x\n    print(2)\n",
        {},
    ),
    (
        "python", "an unfinished string",
        "print('a')\nx = '''abc\nprint(",
        {},
    ),
    (
        "python", "tabs and blanks",
        "if True:\n\tx = 1\n        y = 2\n",
        {},
    ),
    (
        "python", "a syntax error before much text",
        "x = )\n" + "y = 1\n" * 10000,
        {},
    ),
    (
        "python", "nothing but a blank",
        " ",
        {},
    ),
    (
        "python", "without a last newline",
        "print('x', end='')  # y",
        {},
    ),
    (
        "python", "other line ends",
        "print(1)\r\nprint(2)\r\n",
        {},
    ),
    (
        "python", "a mark at the beginning",
        "\ufeffprint('\u00e9\u4e2d\U0001f600')",
        {},
    ),
    (
        "python", "long text",
        "x = 0\n" + "x += 1\n" * 9000 + "print(x)",
        {},
    ),
    (
        "python", "an exit code",
        "import sys\nsys.exit(7)",
        {},
    ),
    (
        "python", "an exit with a word",
        "import sys\nsys.exit('no')",
        {},
    ),
    (
        "python", "a hard exit",
        "import os\nprint('a', flush=True)\nos._exit(9)",
        {},
    ),
    (
        "python", "a signal",
        "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
        {},
    ),
    (
        "python", "an interrupt",
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(5)",
        {},
    ),
    (
        "python", "a crash",
        "import ctypes\nctypes.string_at(0)",
        {},
    ),
    (
        "python", "atexit",
        (
            "import atexit, threading\n"
            "atexit.register(print, 'last')\n"
            "t = threading.Thread(target=lambda: print('thread'))\n"
            "t.start(); t.join()\n"
            "print('end')"
        ),
        {},
    ),
    (
        "python", "a thread that goes on",
        (
            "import threading, time\n"
            "threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()\n"
            "print('main ends')"
        ),
        {},
    ),
    (
        "python", "stdin",
        "import sys\nprint(repr(sys.stdin.read()), sys.stdin.isatty())",
        {"stdin": "one\ntwo \u00e9\n"},
    ),
    (
        "python", "no stdin",
        "import sys\nprint(repr(sys.stdin.read()))\nprint(input())",
        {},
    ),
    (
        "python", "children",
        (
            "import subprocess, sys\n"
            "print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv, sys.path)'], "
            "capture_output=True, text=True))\n"
            "print(subprocess.run('echo $0; ls -l /proc/self/fd | wc -l; env | sort', shell=True, "
            "capture_output=True, text=True))"
        ),
        {},
    ),
    (
        "python", "fork and spawn",
        (
            "import multiprocessing as m, os\n"
            "def f(q):\n"
            "    q.put(__name__)\n"
            "if __name__ == '__main__':\n"
            "    for how in ('fork', 'spawn'):\n"
            "        c = m.get_context(how); q = c.Queue(); p = c.Process(target=f, args=(q,)); "
            "p.start(); print(how, q.get()); p.join(); print(p.exitcode)"
        ),
        {},
    ),
    (
        "python", "a module beside it",
        (
            "import helper, sys\n"
            "print(helper.x, helper.__file__, helper.__spec__.origin, 'helper' in sys.modules)\n"
            "helper.fail()"
        ),
        {"files": {"helper.py": b64(b"x = 5\ndef fail():\n    raise RuntimeError('here')\n")}},
    ),
    (
        "python", "a package that shadows",
        "import json\nprint(json.x)",
        {"files": {"json.py": b64(b"x = 'mine'\n")}},
    ),
    (
        "python", "output files",
        (
            "import os\n"
            "d = os.environ['OUTPUT_DIR']\n"
            "open(d + '/a.bin', 'wb').write(bytes(range(256)))\n"
            "os.mkdir(d + '/e'); open(d + '/e/f', 'w').write('g')\n"
            "os.symlink('/etc/passwd', d + '/l')"
        ),
        {},
    ),
    (
        "python", "refused calls",
        (
            "import socket, os, ctypes\n"
            "for f in (socket.AF_INET, socket.AF_NETLINK):\n"
            "    try: socket.socket(f)\n"
            "    except OSError as e: print(f, e)\n"
            "print(ctypes.CDLL(None, use_errno=True).unshare(0x10000000), ctypes.get_errno())"
        ),
        {},
    ),
    (
        "python", "mixed streams",
        "import sys\nfor i in range(20):\n    print(i, file=sys.stdout if i % 2 else sys.stderr)",
        {},
    ),
    (
        "python", "a full disk",
        "open('big', 'wb').write(bytes(300 << 20))",
        {},
    ),
    (
        "shell", "what it is",
        (
            "echo \"$0\" \"$#\" \"$-\" \"$$\" \"$PPID\" \"$SHLVL\" \"$PWD\" \"$OLDPWD\"; set -o; shopt; umask; "
            "ulimit -a"
        ),
        {},
    ),
    (
        "shell", "arguments",
        "printf \"<%s>\" \"$0\" \"$@\"; cat",
        {"args": ["a", "b c", "", "\u00e9"], "stdin": "in"},
    ),
    (
        "shell", "environment",
        "env | sort; cat /proc/self/cmdline | tr '\\0' ' '",
        {"env": {"A": "b", "ZZ": "\u00e9 x"}},
    ),
    (
        "shell", "descriptors",
        (
            "ls /proc/$$/fd; readlink /proc/$$/fd/255; ls -la /work /tmp /dev/shm | awk '{print $1, "
            "$2, $3, $9}'"
        ),
        {},
    ),
    (
        "shell", "an error",
        "echo a\nif then\n",
        {},
    ),
    (
        "shell", "not found",
        "nosuchcommand\nexit 3",
        {},
    ),
    (
        "shell", "a signal",
        "kill -KILL $$",
        {},
    ),
    (
        "shell", "a trap",
        "trap 'echo bye' EXIT; (sleep 0.05; echo child) & wait; exit 4",
        {},
    ),
    (
        "node", "what it is",
        (
            "console.log(process.argv, process.execArgv, __filename, __dirname, require.main === "
            "module, module.paths, Object.keys(require.cache), process.version, process.cwd(), "
            "process.title, process.exitCode)"
        ),
        {},
    ),
    (
        "node", "globals",
        (
            "console.log(Object.getOwnPropertyNames(globalThis).sort().join(), "
            "process._getActiveHandles().length, process.listenerCount('exit'), "
            "Object.keys(process.env).sort(), process.env)"
        ),
        {},
    ),
    (
        "node", "an error",
        "function f() {\n  null.x;\n}\nf();",
        {},
    ),
    (
        "node", "a syntax error",
        "let x = 1;\nlet y = ;\n",
        {},
    ),
    (
        "node", "a rejection",
        "Promise.reject(new Error('no'))",
        {},
    ),
    (
        "node", "a module",
        "import fs from 'node:fs';\nconsole.log(import.meta.url, fs.readFileSync('d', 'utf8'));",
        {"files": {"d": b64(b"data")}},
    ),
    (
        "node", "require",
        "const h = require('./helper'); console.log(h.x, h.f); require('./nothing')",
        {"files": {"helper.js": b64(b"exports.x = 1; exports.f = __filename")}},
    ),
    (
        "node", "stdin and timers",
        (
            "let t = ''; process.stdin.on('data', d => t += d).on('end', () => { console.log(t); "
            "setTimeout(() => { console.error('later'); process.exit(5) }, 20) })"
        ),
        {"stdin": "abc\n"},
    ),
    (
        "node", "descriptors",
        (
            "const fs = require('fs'); console.log(fs.readdirSync('/proc/self/fd').map(f => { try { "
            "return f + ' ' + fs.readlinkSync('/proc/self/fd/' + f).replace(/\\d+/g, 'N') } catch (e) "
            "{ return f } }), fs.statSync('script.js').mode, fs.readFileSync(__filename, 'utf8').length)"
        ),
        {},
    ),
    (
        "node", "a child",
        (
            "const { execFileSync } = require('child_process'); "
            "console.log(execFileSync(process.execPath, ['-p', 'process.argv.length'], { encoding: "
            "'utf8' })); const { Worker, isMainThread } = require('worker_threads'); new "
            "Worker('require(\"worker_threads\").parentPort.postMessage(1)', { eval: true "
            "}).on('message', console.log)"
        ),
        {},
    ),
    (
        "golang", "hello",
        (
            "package main\n"
            "\n"
            "import (\n"
            "\t\"fmt\"\n"
            "\t\"io\"\n"
            "\t\"os\"\n"
            ")\n"
            "\n"
            "func main() {\n"
            "\tb, _ := io.ReadAll(os.Stdin)\n"
            "\tfmt.Println(len(os.Args), os.Getenv(\"A\"), string(b))\n"
            "\tos.Exit(3)\n"
            "}\n"
        ),
        {"args": ["x"], "env": {"A": "b"}, "stdin": "in"},
    ),
    (
        "golang", "an error",
        "package main\n\nfunc main() {\n\tundefinedCall()\n}\n",
        {},
    ),
    *WORDS,
]
