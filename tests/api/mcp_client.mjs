// SPDX-License-Identifier: GPL-2.0-only
//
// mcp_client.mjs - an official SDK's client: lists the tools, calls each, prints what it got
//
// usage: node mcp_client.mjs DIRECTORY KIND URL
//        node mcp_client.mjs DIRECTORY KIND COMMAND ARGUMENT...
//
// DIRECTORY has the packages. KIND: v1; v2, which begins as v1 does; v2-auto, which finds out;
// v2-pin, of 2026-07-28 alone.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [directory, kind, ...target] = process.argv.slice(2);
const find = createRequire(`${directory}/package.json`);
const load = (name) => import(pathToFileURL(find.resolve(name)).href);
const modes = { v2: "legacy", "v2-auto": "auto", "v2-pin": { pin: "2026-07-28" } };

async function connect() {
	const who = { name: "test", version: "1" };
	const url = /^http/.test(target[0]) ? new URL(target[0]) : null;
	const start = { command: target[0], args: target.slice(1), env: process.env, stderr: "inherit" };
	let client, carrier;

	if (kind === "v1") {
		const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
		const http = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
		const stdio = await load("@modelcontextprotocol/sdk/client/stdio.js");
		client = new Client(who);
		carrier = url ? new http.StreamableHTTPClientTransport(url) : new stdio.StdioClientTransport(start);
	} else {
		const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
		const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
		client = new Client(who, { versionNegotiation: { mode: modes[kind] } });
		carrier = url ? new StreamableHTTPClientTransport(url) : new StdioClientTransport(start);
	}
	await client.connect(carrier);
	return client;
}

const client = await connect();
// v2 takes no schema between a request and its options
const call = (request, options) =>
	kind === "v1" ? client.callTool(request, undefined, options) : client.callTool(request, options);
const { tools } = await client.listTools(); // and keeps their output schemas, to check results by

async function fails(request) {
	try {
		return await call(request);
	} catch (e) {
		return { code: e.code, message: e.message };
	}
}

// given up when the server tells of progress: the run is under way then
async function givesUp() {
	const up = new AbortController();
	const request = { name: "run_code", arguments: { language: "shell", code: "sleep 60" } };
	try {
		await call(request, { signal: up.signal, onprogress: () => up.abort("enough") });
	} catch (e) {
		return `${e.message ?? e}`;
	}
	return "";
}

// where the server has them: a session from its first tool to its last
async function session() {
	if (!tools.some((t) => t.name === "sandbox_open"))
		return null;
	const scope = { scope_type: "agent", scope_id: kind };
	const got = {};
	for (const [name, more] of [
		["open", {}],
		["fs_write", { path: "d/a", content: "text" }],
		["exec", { command: "cat d/a; exit 3" }],
		["fs_read", { path: "d/a" }],
		["fs_list", { path: "d" }],
		["fs_delete", { path: "d/a" }],
		["close", {}],
	])
		got[name] = (await call({ name: `sandbox_${name}`, arguments: { ...scope, ...more } })).structuredContent;
	return got;
}

const progress = [];
const got = {
	version: client.getServerVersion(),
	tools,
	run_code: await call({ name: "run_code", arguments: { code: "print(6*7)" } }),
	run_python_code: await call({ name: "run_python_code", arguments: { code: "1/0" } }),
	sandbox_run: await call(
		{ name: "sandbox_run", arguments: { runtime: "sh", code: "cat a; sleep 1.2", files: { a: "hi" } } },
		{ onprogress: (p) => progress.push(p) },
	),
	wrong: await fails({ name: "run_code", arguments: { code: "1", lang: "x" } }),
	unknown: await fails({ name: "nothing", arguments: {} }),
	given_up: await givesUp(),
	session: await session(),
};
await client.close();
console.log(JSON.stringify({ ...got, progress }));
