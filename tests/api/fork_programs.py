# SPDX-License-Identifier: GPL-2.0-only
"""Programs whose end must not tell that python was there before them: (name, code, fields)."""

LAST_WORDS = [
    ("an object's last word", "class A:\n    def __del__(self): print('bye')\na = A()\ndef f(): return a", {}),
    ("a file never closed", "f = open('output/x', 'w')\nf.write('text')\ndef g(): return f", {}),
    ("a cycle", "class A:\n    def __del__(self): print('bye')\na = A()\na.me = a\ndel a", {}),
    (
        "collected",
        "import gc\nclass A:\n    def __del__(self): print('bye')\na = A()\na.me = a\ndel a\nprint(gc.collect() > 0)",
        {},
    ),
    ("a thread's clock", "import time, threading\nprint(time.pthread_getcpuclockid(threading.get_ident()) != 0)", {}),
    (
        "threads",
        "import threading as t\nm = t.main_thread()\nprint(m.native_id, m is t.current_thread(), t.active_count())",
        {},
    ),
    ("an interrupt that nobody takes", "import os, signal\nprint(1)\nos.kill(os.getpid(), signal.SIGINT)", {}),
    ("an interrupt by itself", "class K(KeyboardInterrupt): pass\nraise K", {}),
    ("a stream that is closed", "import os\nos.close(1)\nprint(1)", {}),
    ("a stream that python closed", "import sys\nsys.stdout.close()", {}),
    ("a stream of its own", "import sys\nclass A:\n    def write(self, s): return len(s)\n    def flush(self):"
     " sys.__stdout__.write('flushed')\nsys.stdout = A()\nprint(1)", {}),
    ("without a collector", "import gc\ngc.disable()\nclass A:\n    def __del__(self): print('bye')\na = A()", {}),
    *((f"something of its own in {name}", f"import {name}\nclass A:\n    def __del__(self): print('bye')\n"
       f"{name}.own = A()", {}) for name in ("os", "sys", "builtins", "json")),
    ("last words in their order", "import atexit, sys, weakref\nclass A:\n    def __init__(self, n): self.n = n\n"
     "    def __del__(self): print(self.n, sys.is_finalizing(), sys.meta_path is None)\na, b = A(1), A(2)\n"
     "a.b = b\nweakref.finalize(a, print, 'finalized')\natexit.register(print, 'at exit')\n"
     "def g():\n    try: yield 1\n    finally: print('generator')\nh = g()\nnext(h)\nsys.stderr.write('end')", {}),
    *((f"a file that {who} has", f"import codecs, contextvars, os, signal, sys\nf = open('output/x', 'w')\n"
       f"f.write('text')\ndef g(*a, f=f): pass\n{take}\ndel f, g", {}) for who, take in (
           ("an audit hook", "sys.addaudithook(g)"),
           ("a profiler", "sys.setprofile(g)"),
           ("a tracer", "sys.settrace(g)"),
           ("an exception hook", "sys.excepthook = g"),
           ("a context", "contextvars.ContextVar('x').set(g)"),
           ("a codec", "codecs.register(g)"),
           ("a handler of signals", "signal.signal(signal.SIGUSR1, g)"),
           ("a fork", "os.register_at_fork(before=g)"),
           ("a class that was there", "os.PathLike.own = g"),
           ("a function's place", "os.getenv = g"),
           ("a list of python's", "sys.path_hooks.append(g)"),
           ("nobody", "import gc; g.me = g; gc.freeze()"),
       )),
    *((f"a last word of {what}", f"import os, sys, warnings\n{code}", {}) for what, code in (
        ("a class without names", "class A:\n    __slots__ = ()\n    def __del__(self): print('bye')\na = A()"),
        ("a class that was there", "os._Environ.__del__ = lambda self, write=os.write: write(1, b'bye')"),
        ("a function that was replaced", "class A:\n    def __del__(self): print('bye')\nos.getenv = A()"),
        ("a directory", "warnings.simplefilter('always')\na = os.scandir('/')\nnext(a)"),
        ("a hook that hears of the end", "sys.addaudithook(lambda e, a, w=os.write: w(1, e.encode() + b' '))"),
        ("an exception", "class E(Exception):\n    def __del__(self): print('bye')\nraise E"),
        ("a stream on a stream", "import io\nx = io.TextIOWrapper(sys.stdout.buffer)\nx.write('late')"),
        ("an object that was collected late", "import gc\nclass A:\n    def __del__(self): print('bye')\n"
         "a = A()\ngc.freeze()\ndel a"),
    )),
    *((f"a last word of {what} that gets a class", f"import os, types\nclass A({base}):\n"
       f"    def __del__(self, write=os.write): write(1, b'bye')\n{of}.__class__ = A", {}) for what, base, of in (
           ("an object", "os._Environ", "os.environ"),
           ("a module", "types.ModuleType", "os"),
       )),
    ("one that the collector calls", "import gc, os\n"
     "gc.callbacks.append(lambda phase, info, write=os.write: write(1, phase.encode()))", {}),
    ("plain things", "class A: pass\nx = [A(), A]\nx.append(x)\nprint(len(x))", {}),
    ("many of them", "import gc\nx = [[] for i in range(200000)]\ngc.collect()\nprint(len(x))", {}),
    ("a class that says goodbye", "class A:\n    def __del__(self): print('bye')\nclass B(A): pass\nx = [B()]", {}),
    ("a metaclass that does", "class M(type):\n    def __del__(self): print('bye')\nclass A(metaclass=M): pass", {}),
    ("a reference that is told", "import weakref\nclass A: pass\na = A()\n"
     "r = weakref.ref(a, lambda r: print('gone'))", {}),
    ("a lock that is missed", "import _thread, weakref\nheld = _thread.allocate_lock()\nheld.acquire()\n"
     "r = weakref.ref(held, lambda r: print('gone'))", {}),
    ("a module left alone at the end", "import os, posixpath\nclass A:\n    def __del__(self):"
     " print(os.path.join('a', 'b'), posixpath is not None)\na = A()\nb = a", {}),
    ("a thread that outlives it", "import threading, time\ndef f():\n    time.sleep(0.1)\n    print('late')\n"
     "threading.Thread(target=f).start()\nprint('first')", {}),
    ("a thread that does not", "import threading, time\nthreading.Thread(target=time.sleep, args=(9,),"
     " daemon=True).start()\nprint('first')", {}),
    ("a fork of its own", "import os\nclass A:\n    def __del__(self): print('bye', flush=True)\na = A()\n"
     "if os.fork() == 0: raise SystemExit(3)\nprint(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)", {}),
    ("a hook that fails", "import sys\nsys.excepthook = lambda *a: 1 / 0\nraise ValueError('x')", {}),
    ("an exit in a hook", "import sys\nsys.excepthook = lambda *a: sys.exit(7)\nraise ValueError('x')", {}),
    ("an exit at the exit", "import atexit, sys\natexit.register(sys.exit, 5)\nprint(1)", {}),
    ("an exit with words", "raise SystemExit('words')", {}),
    ("an exit that is no status", "raise SystemExit(2 ** 70)", {}),
    ("what main is", "import __main__, sys\nprint(sorted(vars(__main__)), type(__main__.__loader__),"
     " __main__.__loader__.path, __main__.__spec__, __cached__, sys._getframe().f_back)", {}),
    (
        "a pipe with no reader",
        "import os\nr, w = os.pipe()\nos.close(r)\ntry: os.write(w, b'x')\nexcept BrokenPipeError: print('broken')",
        {},
    ),
]
