# SPDX-License-Identifier: GPL-2.0-only
"""Everyday programs, by language. Each says the same wherever it runs."""

PYTHON = {
    "threads": """
import threading, queue
q, out = queue.Queue(), []
def work():
    while (n := q.get()) is not None: out.append(n * n)
ts = [threading.Thread(target=work) for _ in range(8)]
for t in ts: t.start()
for n in range(1000): q.put(n)
for t in ts: q.put(None)
for t in ts: t.join()
print(sum(out), len(out))
""",
    "subprocess": """
import subprocess, sys
print(subprocess.run(["sh", "-c", "echo out; echo err >&2; exit 5"], capture_output=True))
print(subprocess.check_output([sys.executable, "-c", "print(6*7)"], text=True), end="")
print(subprocess.run("cat", input=b"x" * 100000, stdout=subprocess.PIPE).stdout.count(b"x"))
try: subprocess.run(["sleep", "60"], timeout=0.1)
except subprocess.TimeoutExpired as e: print("timeout", e.cmd)
try: subprocess.run(["/no/such"])
except FileNotFoundError as e: print(e)
""",
    "multiprocessing fork": """
import multiprocessing as mp
def f(n): return n * n
if __name__ == "__main__":
    with mp.get_context("fork").Pool(3) as p: print(p.map(f, range(50)))
""",
    "multiprocessing spawn": """
import multiprocessing as mp
def f(q, lock, v):
    with lock: v.value += 1
    q.put(v.value)
if __name__ == "__main__":
    c = mp.get_context("spawn")
    q, lock, v = c.Queue(), c.Lock(), c.Value("i", 0)
    ps = [c.Process(target=f, args=(q, lock, v)) for _ in range(3)]
    for p in ps: p.start()
    got = [q.get() for _ in ps]
    for p in ps: p.join()
    print(v.value, len(got), [p.exitcode for p in ps])
""",
    "futures": """
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
def f(n): return sum(range(n))
if __name__ == "__main__":
    for kind in (ProcessPoolExecutor, ThreadPoolExecutor):
        with kind(3) as p: print(list(p.map(f, range(20))))
""",
    "asyncio": """
import asyncio, sys
async def one(n):
    await asyncio.sleep(0.01 * n)
    return n
async def main():
    print(await asyncio.gather(*map(one, range(10))))
    p = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('child')",
                                             stdout=asyncio.subprocess.PIPE)
    print(await p.communicate(), p.returncode)
    try: await asyncio.wait_for(asyncio.sleep(60), 0.05)
    except asyncio.TimeoutError: print("timeout")
    print(await asyncio.to_thread(sum, range(10)))
asyncio.run(main())
""",
    "asyncio unix server": """
import asyncio
async def echo(r, w):
    w.write((await r.readline()).upper()); await w.drain(); w.close()
async def main():
    s = await asyncio.start_unix_server(echo, "sock")
    r, w = await asyncio.open_unix_connection("sock")
    w.write(b"hello\\n"); print(await r.readline()); w.close()
    s.close()
asyncio.run(main())
""",
    "sqlite": """
import sqlite3, os
for where in ("data.db", ":memory:", os.path.join(os.environ["TMPDIR"], "x.db")):
    c = sqlite3.connect(where)
    c.execute("pragma journal_mode=wal")
    c.execute("create table t(a integer primary key, b text)")
    c.executemany("insert into t(b) values(?)", [(f"row {i}",) for i in range(1000)])
    c.commit()
    print(c.execute("select count(*), max(a), min(b) from t").fetchall())
    c.close()
""",
    "tempfile": """
import tempfile, os, shutil
with tempfile.NamedTemporaryFile("w+") as f:
    f.write("x"); f.flush(); print(os.path.getsize(f.name))
with tempfile.TemporaryDirectory() as d:
    os.makedirs(d + "/a/b"); open(d + "/a/b/c", "w").close(); os.symlink("c", d + "/a/b/l")
    os.link(d + "/a/b/c", d + "/h"); os.mkfifo(d + "/f"); os.rename(d + "/a", d + "/z")
    print(sorted(os.listdir(d)), os.readlink(d + "/z/b/l"), os.stat(d + "/h").st_nlink)
    print(shutil.make_archive("arc", "gztar", d + "/z") is not None)
with tempfile.TemporaryFile() as f: f.write(b"x" * 1000000); print(f.tell())
""",
    "shared memory": """
from multiprocessing import shared_memory, Process
def child(name):
    m = shared_memory.SharedMemory(name); m.buf[:5] = b"hello"; m.close()
if __name__ == "__main__":
    m = shared_memory.SharedMemory(create=True, size=4096)
    p = Process(target=child, args=(m.name,)); p.start(); p.join()
    print(bytes(m.buf[:5]), p.exitcode); m.close(); m.unlink()
""",
    "mmap": """
import mmap
m = mmap.mmap(-1, 1 << 20); m[:3] = b"abc"; print(m[:3])
with open("f", "wb+") as f:
    f.truncate(8192); n = mmap.mmap(f.fileno(), 8192); n[4096:4100] = b"page"; n.flush()
    print(f.seek(4096), f.read(4))
""",
    "memory files": """
import os
fd = os.memfd_create("x"); os.write(fd, b"mem"); print(os.pread(fd, 3, 0))
""",
    "sockets": """
import socket, os, array, threading
a, b = socket.socketpair()
a.sendall(b"ping"); print(b.recv(10))
r, w = os.pipe()
socket.send_fds(a, [b"fd"], [w]); _, fds, _, _ = socket.recv_fds(b, 10, 1)
os.write(fds[0], b"through"); print(os.read(r, 20))
path = os.path.join(os.environ["TMPDIR"], "s")
s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen()
def client():
    with socket.socket(socket.AF_UNIX) as c: c.connect(path); c.sendall(b"unix")
t = threading.Thread(target=client); t.start()
c, _ = s.accept(); print(c.recv(10)); t.join()
""",
    "signals": """
import signal, os, time
got = []
signal.signal(signal.SIGALRM, lambda s, f: got.append(s)); signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(0.2); print(got == [signal.SIGALRM])
signal.signal(signal.SIGUSR1, lambda s, f: got.append(s)); os.kill(os.getpid(), signal.SIGUSR1)
print(len(got))
pid = os.fork()
if pid == 0: os.kill(os.getpid(), signal.SIGTERM)
print(os.waitpid(pid, 0)[1])
""",
    "standard library": """
import hashlib, zlib, json, csv, io, decimal, datetime, re, random, secrets, uuid, ssl, ctypes
import urllib.parse, xml.etree.ElementTree as E, zoneinfo, select, inspect, pickle, struct, locale
print(hashlib.sha256(b"x").hexdigest(), zlib.crc32(b"x"), decimal.Decimal(1) / 3)
print(datetime.datetime.fromtimestamp(0, zoneinfo.ZoneInfo("Europe/Berlin")))
random.seed(1); print(random.random(), len(secrets.token_bytes(9)), len(str(uuid.uuid4())))
print(E.fromstring("<a><b>1</b></a>").find("b").text, ctypes.CDLL(None).abs(-3))
print(ssl.create_default_context().verify_mode, pickle.loads(pickle.dumps({1: {2}})))
w = io.StringIO(); csv.writer(w).writerow([1, "a,b"]); print(repr(w.getvalue()))
""",
    "exit codes": "import sys; print('x', file=sys.stderr); sys.exit(7)",
    "traceback": "def f(): return 1/0\nf()",
    "numpy": """
try:
    import numpy as np
    print(np.linalg.inv(np.array([[1., 2.], [3., 4.]])).round(6).tolist(), np.arange(10).sum())
except ImportError: print("no numpy")
""",
}

NODE = {
    "worker threads": """
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (isMainThread) {
  Promise.all([1, 2, 3].map(n => new Promise((ok, no) => {
    const w = new Worker(__filename, { workerData: n }); w.on('message', ok); w.on('error', no);
  }))).then(r => console.log(r));
} else parentPort.postMessage(workerData * workerData);
""",
    "fs": """
const fs = require('fs'), path = require('path'), os = require('os');
const d = fs.mkdtempSync(path.join(os.tmpdir(), 'x-'));
fs.writeFileSync(d + '/a', 'hello'); fs.appendFileSync(d + '/a', ' world');
fs.symlinkSync('a', d + '/l'); fs.renameSync(d + '/a', d + '/b'); fs.copyFileSync(d + '/b', d + '/c');
console.log(fs.readdirSync(d), fs.readFileSync(d + '/c', 'utf8'), fs.existsSync(d + '/l'));
fs.promises.readFile(d + '/b').then(b => { console.log(b.length); fs.rmSync(d, { recursive: true }); });
const w = fs.watch(d, () => {}); w.close();
""",
    "child process": """
const { execSync, spawn, fork } = require('child_process');
console.log(execSync('echo $((6*7))').toString());
const p = spawn(process.execPath, ['-e', 'process.exit(3)']);
p.on('exit', c => console.log('exit', c));
""",
    "crypto, zlib, timers": """
const crypto = require('crypto'), zlib = require('zlib');
console.log(crypto.createHash('sha256').update('x').digest('hex'));
console.log(zlib.gunzipSync(zlib.gzipSync('y'.repeat(100000))).length);
crypto.pbkdf2('p', 's', 1000, 16, 'sha256', (e, k) => {
  console.log(k.toString('hex'));
  setTimeout(() => console.log('later'), 50); setImmediate(() => console.log('soon'));
});
""",
    "unix socket": """
const net = require('net'), path = require('path').join(require('os').tmpdir(), 's' + process.pid);
const s = net.createServer(c => c.end('hello')).listen(path, () =>
  net.connect(path).on('data', d => { console.log(d.toString()); s.close(); }));
""",
    "os": """
const os = require('os');
console.log(os.platform(), os.cpus().length > 0, os.totalmem() > 0, os.tmpdir().length > 0);
console.log(typeof os.networkInterfaces());
""",
    "failure": "console.log('before'); process.exitCode = 4; throw new TypeError('thrown');",
}

SHELL = {
    "pipeline": "seq 1 1000 | awk '{s+=$1} END {print s}'; seq 5 | sort -rn | head -2 | paste -sd,",
    "coreutils": """
set -e
mkdir -p a/b; echo hello >a/b/c; cp -a a z; mv z y; ln -s b a/l; touch -d @0 y/b/c
stat -c '%n %s %Y' y/b/c; find . -name c | sort; du -sk a | cut -f2; wc -c <a/b/c
tr a-z A-Z <a/b/c | rev; sha256sum a/b/c; date -u -d @0 +%F; expr 6 \\* 7; basename /x/y.z .z
tar cf t.tar a; tar tf t.tar | sort; gzip -c a/b/c | gunzip; diff -r a y && echo same
printf '%s\\n' b a | sort; xargs -n1 echo <<<"1 2 3"; timeout 0.1 sleep 5; echo $?
""",
    "job control": "sleep 0.2 & wait $!; echo $?; (exit 7) & wait $!; echo $?; trap 'echo bye' EXIT",
    "here documents": "cat <<E | sed s/a/b/\naaa $((1+1))\nE\nread -r x <<<'in'; echo $x; cat <(echo sub)",
    "streams": """
echo one >/dev/stdout; echo two >/dev/stderr; echo three >/proc/self/fd/1; echo four >>/dev/stdout
echo five | tee /dev/stderr; echo six >/dev/fd/1; echo lost >/dev/null
""",
    "arrays": "a=(x y z); declare -A m=([k]=v); echo ${#a[@]} ${a[-1]} ${m[k]}; [[ abc =~ b ]] && echo yes",
    "exit": "echo out; echo err >&2; exit 9",
    "unknown command": "no_such_command_here 2>/dev/null; echo $?",
    "jq": """command -v jq >/dev/null || exit 0
echo '{"a":[1,2,{"b":"x"}]}' | jq -c '.a[2].b, (.a[:2]|add)'""",
    "git": """command -v git >/dev/null || exit 0
export GIT_AUTHOR_DATE='@0 +0000' GIT_COMMITTER_DATE='@0 +0000'
git init -q -b main r && cd r && git config user.email a@b && git config user.name n
echo x >f && git add f && git commit -qm first && git log --format='%H %s' && git status --short
git checkout -qb side && echo y >>f && git commit -qam second && git diff --stat main""",
    "curl": "command -v curl >/dev/null || exit 0\ncurl --version",
}

GOLANG = {
    "goroutines": """package main
import ("fmt"; "sync"; "time"; "context")
func main() {
	var wg sync.WaitGroup; var mu sync.Mutex; sum := 0
	for i := 0; i < 1000; i++ { wg.Add(1); go func(n int) { defer wg.Done(); mu.Lock(); sum += n; mu.Unlock() }(i) }
	wg.Wait(); fmt.Println(sum)
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond); defer stop()
	select { case <-ctx.Done(): fmt.Println(ctx.Err()); case <-time.After(time.Minute): }
}
""",
    "files and processes": """package main
import ("fmt"; "os"; "os/exec"; "path/filepath")
func main() {
	d, err := os.MkdirTemp("", "x"); if err != nil { panic(err) }
	defer os.RemoveAll(d)
	fmt.Println(os.WriteFile(filepath.Join(d, "f"), []byte("hello"), 0644))
	b, _ := os.ReadFile(filepath.Join(d, "f")); fmt.Println(string(b))
	out, err := exec.Command("echo", "child").Output(); fmt.Printf("%q %v\\n", out, err)
}
""",
    "exit": """package main
import ("fmt"; "os")
func main() { fmt.Println("out"); fmt.Fprintln(os.Stderr, "err"); os.Exit(3) }
""",
}

GO_HTTP = """package main
import ("fmt"; "net"; "net/http"; "net/http/httptest"; "time")
func main() {
	_, err := net.Listen("tcp", "127.0.0.1:0"); fmt.Println("listen:", err)
	c := http.Client{Timeout: 5 * time.Second}
	_, err = c.Get("http://127.0.0.1:1/"); fmt.Println("get:", err != nil)
	defer func() { fmt.Println("recovered:", recover() != nil) }()
	s := httptest.NewServer(http.NotFoundHandler()); fmt.Println(s.URL)
}
"""
