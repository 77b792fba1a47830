'use strict';
// What a program printed is shown as text, never as markup: nothing here writes HTML.
const $ = (id) => document.getElementById(id);
const el = (tag, props, ...inside) => {
	const e = Object.assign(document.createElement(tag), props);
	e.append(...inside);
	return e;
};

const samples = {
	python: {
		'A picture': `import os, struct, zlib

# What a program leaves in OUTPUT_DIR comes back with its result.
W, H = 360, 220
rows = b""
for y in range(H):
    row = b""
    for x in range(W):
        z, c, n = 0, complex(x / 130 - 2.05, y / 100 - 1.1), 0
        while abs(z) < 2 and n < 32:
            z, n = z * z + c, n + 1
        row += bytes((n * 4, 40 + n * 5, 60 + n * 5)) if n < 32 else b"\\x0b\\x18\\x20"
    rows += b"\\0" + row
    if y % 55 == 0:
        print(f"row {y} of {H}", flush=True)

def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", W, H, 8, 2, 0, 0, 0))
png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
open(os.environ["OUTPUT_DIR"] + "/mandelbrot.png", "wb").write(png)
print("done")
`,
		'Output as it comes': `import time

for i in range(5):
    print("line", i, flush=True)
    time.sleep(0.5)
`,
		'What is refused': `import socket

try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as e:
    print("no network:", e)
`,
		'Out of memory': `x = []
while True:
    x.append(bytearray(1 << 20))
`,
	},
	node: {
		'A picture': `const fs = require('fs');
const bars = [3, 7, 4, 9, 6];
const svg = bars.map((b, i) => \`<rect x="\${i * 40 + 8}" y="\${100 - b * 10}" width="28" height="\${b * 10}" fill="teal"/>\`);
fs.writeFileSync(process.env.OUTPUT_DIR + '/bars.svg',
  \`<svg xmlns="http://www.w3.org/2000/svg" width="220" height="110">\${svg.join('')}</svg>\`);
console.log('node', process.version);
`,
		'Output as it comes': `let i = 0;
const t = setInterval(() => { console.log('line', i); if (++i === 5) clearInterval(t); }, 500);
`,
	},
	shell: {
		'A look around': `id
uname -sr
ls -la /
echo "$PATH"
date > "$OUTPUT_DIR/now.txt"
`,
		'Output as it comes': `for i in 1 2 3 4 5; do
	echo "line $i"
	sleep 0.5
done
`,
		'Too long': 'echo "this takes longer than it may"\nsleep 1000\n',
	},
	golang: {
		'Hello': `package main

import (
	"fmt"
	"runtime"
)

func main() {
	fmt.Println("hello from", runtime.Version())
}
`,
	},
};

// ---- the server

const store = {
	get: () => { try { return sessionStorage.getItem('token'); } catch { return null; } },
	set: (t) => { try { sessionStorage.setItem('token', t); } catch { /* then for this page alone */ } },
};
let token = store.get() || '';

async function ask(path, options = {}) {
	const headers = { Accept: 'application/json', ...options.headers };
	if (token)
		headers.Authorization = `Bearer ${token}`;
	const r = await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
	if (r.status === 401 && $('token-form').hidden) {
		$('token-form').hidden = false;
		$('token').focus();
	}
	return r;
}

async function problem(r) {
	try {
		return (await r.json()).error;
	} catch {
		return `The server answered ${r.status}.`;
	}
}

// ---- what is shown of it

function duration(s) {
	const [n, unit] = s < 120 ? [s, 's'] : s < 7200 ? [s / 60, 'min'] : s < 172800 ? [s / 3600, 'h'] : [s / 86400, 'days'];
	return `${Math.round(n)} ${unit}`;
}

function size(bytes) {
	return bytes < 1024 ? `${bytes} B` : bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / (1 << 20)).toFixed(1)} MB`;
}

const levels = { full: 'good', namespaces: 'good', landlock: 'warn' };
let known = false;

function offer(modes) {
	if (known)
		return;
	known = true;
	$('language').replaceChildren(...modes.map((m) => el('option', { value: m, textContent: m })));
	offerSamples();
}

function offerSamples() {
	const all = samples[$('language').value] || {};
	$('sample').replaceChildren(...Object.keys(all).map((n) => el('option', { value: n, textContent: n })));
	// what somebody typed stays
	if (!$('code').value || written === $('code').value)
		useSample();
}

let written = '';
function useSample() {
	written = (samples[$('language').value] || {})[$('sample').value] || '';
	$('code').value = written;
}

async function showHealth() {
	const h = await (await ask('/health')).json();
	$('version').textContent = h.version;
	const level = h.isolation.level;
	$('level').className = `chip ${levels[level] || 'bad'}`;
	$('level').textContent = h.isolation.lost ? `${level}, ${h.isolation.lost.layer} lost` : level;
	$('load').textContent = h.status === 'draining' ? 'shutting down' : `${h.current_load} of ${h.capacity}`;
	$('uptime').textContent = duration(h.uptime_seconds);
	offer(h.modes || [h.mode]);
}

async function showIsolation() {
	const r = await ask('/isolation');
	if (!r.ok) {
		$('summary').textContent = await problem(r);
		return;
	}
	const all = await r.json();
	$('summary').textContent = all.summary || '';
	$('layers').replaceChildren(...Object.entries(all.layers).map(([name, l]) => {
		const state = l.active ? ['good', 'active'] : l.requested ? ['bad', 'missing'] : ['off', 'not asked for'];
		const saw = el('td', { textContent: l.evidence });
		for (const more of [l.reason, l.fix])
			if (more)
				saw.append(el('br'), el('small', { textContent: more }));
		return el('tr', {}, el('td', { textContent: name.replaceAll('_', ' ') }),
			el('td', {}, el('span', { className: `chip ${state[0]}`, textContent: state[1] })), saw);
	}));
}

async function showSessions() {
	const r = await ask('/sessions');
	const list = r.ok ? (await r.json()).sessions : [];
	const now = Date.now() / 1000;
	$('sessions-note').textContent = r.ok ? (list.length ? `${list.length} open` : 'None is open.') : await problem(r);
	$('sessions-table').hidden = !list.length;
	$('session-rows').replaceChildren(...list.map((s) => el('tr', {}, ...[
		s.session_id, s.image, `${s.commands ?? 0} running`,
		`used ${duration(Math.max(0, now - s.last_used_at))} ago`,
		s.expires_at ? `ends in ${duration(Math.max(0, s.expires_at - now))}` : 'stays',
	].map((text) => el('td', { textContent: text })))));
}

let failing = false;
async function refresh(all) {
	try {
		await showHealth();
		if (all || failing)
			await Promise.all([showIsolation(), showSessions()]);
		failing = false;
	} catch {
		failing = true;
		$('load').textContent = 'not reached';
	}
}

// ---- a run

const verdicts = {
	ok: 'ok', nonzero_exit: 'failed', timeout: 'timed out', cpu_timeout: 'too much CPU', out_of_memory: 'out of memory',
	signal: 'killed by a signal', disk_full: 'disk full', install_failed: 'install failed', blocked_import: 'import blocked',
};
const pictures = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', avif: 'image/avif', svg: 'image/svg+xml' };
const texts = ['txt', 'csv', 'json', 'md', 'log', 'tsv', 'xml', 'yaml', 'yml', 'html'];

let urls = [];
let last = null;
function print(kind, text) {
	const out = $('output');
	const below = out.scrollHeight - out.scrollTop - out.clientHeight < 40;
	if (!last || last.className !== kind) {
		last = el('span', { className: kind });
		out.append(last);
	}
	last.append(text);
	if (below)
		out.scrollTop = out.scrollHeight;
}

function say(kind, word, more = '') {
	$('verdict').replaceChildren(el('span', { className: `chip ${kind}`, textContent: word }), more);
}

function part(title, ...inside) {
	$('details').append(el('section', {}, el('h3', { textContent: title }), ...inside));
}

function measure(name, text, share) {
	const box = el('div', {}, name, el('b', { textContent: text }));
	if (share !== undefined) {
		const fill = el('i');
		fill.style.width = `${Math.min(100, Math.max(1, share * 100))}%`;
		box.append(el('div', { className: 'track' }, fill));
	}
	return box;
}

function showUsage(meta) {
	const u = meta.usage || {}, l = meta.resource_limits || {};
	const rows = [measure('CPU', `${u.cpu_ms} ms of ${l.cpu_seconds} s`, u.cpu_ms / (l.cpu_seconds * 1000))];
	if (u.memory_peak_kb != null)
		rows.push(measure('Memory', `${size(u.memory_peak_kb * 1024)} of ${l.memory_mb} MB`, u.memory_peak_kb / 1024 / l.memory_mb));
	if (u.pids_peak != null)
		rows.push(measure('Processes', `${u.pids_peak} of ${l.pids}`, u.pids_peak / l.pids));
	rows.push(measure('Sandbox made in', `${(u.setup_us / 1000).toFixed(1)} ms`));
	if (meta.install_ms)
		rows.push(measure('Packages in', `${meta.install_ms} ms`));
	if (meta.network)
		rows.push(measure('Connections', `${meta.network.connections}, ${meta.network.refused} refused`));
	part('Usage', el('div', { className: 'usage' }, ...rows));
}

function showViolations(list) {
	part('Refused system calls', el('ul', { className: 'violations' }, ...list.map((v) => el('li', {},
		el('code', { textContent: v.syscall }), ` ${v.count} ${v.count === 1 ? 'time' : 'times'}, answered with ${v.errno}`,
		...(v.hint ? [el('br'), v.hint] : [])))));
}

function showFiles(files) {
	part('Files', el('ul', { className: 'produced' }, ...Object.entries(files).map(([name, base64]) => {
		const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
		const kind = name.split('.').pop().toLowerCase();
		const url = URL.createObjectURL(new Blob([bytes], { type: pictures[kind] || 'application/octet-stream' }));
		const item = el('li');
		urls.push(url);
		if (pictures[kind]) {
			item.className = 'picture';
			item.append(el('img', { src: url, alt: `Produced picture ${name}` }));
		} else if (texts.includes(kind)) {
			item.append(el('pre', { tabIndex: 0, textContent: new TextDecoder().decode(bytes.slice(0, 4096)) }));
		}
		item.append(el('a', { href: url, download: name.split('/').pop(), textContent: name }),
			el('small', { textContent: ` ${size(bytes.length)}` }));
		return item;
	})));
}

function showResult(r) {
	const m = r.meta;
	say(m.verdict === 'ok' ? 'good' : 'bad', verdicts[m.verdict] || m.verdict,
		`exit code ${r.exit_code}, ${r.execution_time_ms} ms`);
	if (!last)
		$('output').append(el('span', { className: 'none', textContent: 'It printed nothing.' }));
	if (m.truncated)
		part('Output', 'It was cut: there was more than the limit.');
	if (m.violations && m.violations.length)
		showViolations(m.violations);
	if (r.files_produced)
		showFiles(r.files_produced);
	for (const f of m.files_skipped || [])
		part('Left out', `${f.name}: ${f.reason}`);
	showUsage(m);
}

function showEvent(line) {
	const { event, data } = JSON.parse(line);
	if (event === 'result')
		showResult(data);
	else if (event === 'error')
		say('bad', 'not run', data.error);
	else
		print(event, data.text);
	return event === 'result' || event === 'error';
}

async function follow(body) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let text = '', ended = false;
	for (let piece; !(piece = await reader.read()).done;) {
		const lines = (text + piece.value).split('\n');
		text = lines.pop();
		for (const line of lines)
			ended = showEvent(line) || ended;
	}
	if (!ended)
		say('bad', 'not known', 'The connection ended before the result.');
}

async function base64(file) {
	const bytes = new Uint8Array(await file.arrayBuffer());
	let text = '';
	for (let i = 0; i < bytes.length; i += 32768)
		text += String.fromCharCode(...bytes.subarray(i, i + 32768));
	return btoa(text);
}

async function request() {
	const lines = (id) => $(id).value.split('\n').map((s) => s.trim()).filter(Boolean);
	const q = { code: $('code').value, language: $('language').value };
	if ($('stdin').value)
		q.stdin = $('stdin').value;
	if (lines('args').length)
		q.args = lines('args');
	if (lines('packages').length)
		q.requirements = lines('packages');
	if ($('timeout').value)
		q.timeout_seconds = Number($('timeout').value);
	if ($('memory').value)
		q.limits = { memory_mb: Number($('memory').value) };
	if ($('network').checked)
		q.network = true;
	for (const f of $('files').files)
		(q.files ||= {})[f.name] = await base64(f);
	return q;
}

let running = null;
async function run() {
	if (running)
		return;
	running = new AbortController();
	$('run').disabled = true;
	$('stop').disabled = false;
	urls.splice(0).forEach((u) => URL.revokeObjectURL(u));
	$('output').replaceChildren();
	$('details').replaceChildren();
	last = null;
	say('off', 'running');
	try {
		const r = await ask('/execute', {
			method: 'POST',
			headers: { 'Content-Type': 'application/json', Accept: 'application/x-ndjson' },
			body: JSON.stringify(await request()),
			signal: running.signal,
		});
		if (r.ok)
			await follow(r.body);
		else
			say('bad', r.status === 429 ? 'busy' : 'not run', await problem(r));
	} catch (e) {
		if (e.name === 'AbortError')
			say('warn', 'stopped', 'The run was ended.');
		else
			say('bad', 'not run', 'The server could not be reached.');
	}
	running = null;
	$('run').disabled = false;
	$('stop').disabled = true;
	refresh(true);
}

$('run-form').addEventListener('submit', (e) => { e.preventDefault(); run(); });
$('stop').addEventListener('click', () => running && running.abort());
$('language').addEventListener('change', offerSamples);
$('sample').addEventListener('change', useSample);
$('token-form').addEventListener('submit', (e) => {
	e.preventDefault();
	token = $('token').value.trim();
	store.set(token);
	$('token-form').hidden = true;
	refresh(true);
});
document.addEventListener('keydown', (e) => {
	if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
		e.preventDefault();
		run();
	} else if (e.key === 'Escape' && running) {
		running.abort();
	}
});
document.addEventListener('visibilitychange', () => document.hidden || refresh(true));
setInterval(() => document.hidden || refresh(false), 3000);
refresh(true);
