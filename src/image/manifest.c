/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * manifest.c - what an archive says of the image in it: its layers and its configuration
 *
 * https://github.com/opencontainers/image-spec has the form of one kind, docker save
 * writes the other. Everything that is named by a digest is held to it.
 */
#include "image/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "image/tar.h"

#define TEXT_MOST (4u << 20)
#define NESTED_MOST 3
#define BLOB_PATH (sizeof("blobs/sha256/") + 64)

static const struct json_limits limits = {.depth = 16, .members = 65536, .values = 65536};

const char *manifest_architecture(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#else
#error "what do images call this architecture?"
#endif
}

enum manifest_kind manifest_kind(const struct blobs *b)
{
	if (blobs_find(b, "oci-layout") && blobs_find(b, "index.json"))
		return MANIFEST_OCI;
	return blobs_find(b, "manifest.json") ? MANIFEST_DOCKER : MANIFEST_NONE;
}

/* "" when there is none */
static const char *text_of(const struct json *v, const char *name)
{
	const struct json *m = v && json_is_object(v) ? json_member(v, name) : NULL;
	size_t len = 0;
	const char *text = m ? json_text(m, &len) : NULL;

	return text && strlen(text) == len ? text : "";
}

static struct json *parse(const struct blobs *b, const char *name, struct err *e)
{
	char shown[TAR_SHOWN];
	struct json *v = NULL;
	struct buf text;

	buf_init(&text, TEXT_MOST);
	if (blobs_text(b, name, &text, e) == 0) {
		v = json_parse(text.bytes, text.len, &limits, e);
		if (!v)
			err_bad(e, "'%s' is not the JSON that it should be",
				tar_shown(name, shown));
	}
	buf_done(&text);
	return v;
}

/* the file that a digest names, checked; its name in out */
static const struct blob *find_blob(const struct blobs *b, const char *digest,
				    char out[BLOB_PATH], struct err *e)
{
	const struct blob *blob;
	char shown[TAR_SHOWN];

	if (!blob_digest_ok(digest)) {
		err_bad(e, "it names something by '%s', which is no sha256 digest",
			tar_shown(digest, shown));
		return NULL;
	}
	snprintf(out, BLOB_PATH, "blobs/sha256/%s", digest + strlen("sha256:"));
	blob = blobs_find(b, out);
	if (!blob)
		err_bad(e, "the archive has no '%s'", out);
	return blob;
}

static struct json *parse_digest(const struct blobs *b, const char *digest, struct err *e)
{
	char path[BLOB_PATH];
	const struct blob *blob = find_blob(b, digest, path, e);

	if (!blob || blobs_check(b, blob, digest, e) < 0)
		return NULL;
	return parse(b, path, e);
}

static bool fits_here(const struct json *descriptor)
{
	const struct json *p = json_member(descriptor, "platform");

	return !p || (strcmp(text_of(p, "architecture"), manifest_architecture()) == 0 &&
		      strcmp(text_of(p, "os"), "linux") == 0);
}

static bool is_called(const struct json *descriptor, const char *name)
{
	static const char *const keys[] = {"org.opencontainers.image.ref.name",
					   "io.containerd.image.name"};
	const struct json *a = json_member(descriptor, "annotations");

	for (size_t i = 0; a && i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *is = text_of(a, keys[i]);
		const size_t len = strlen(is), n = strlen(name);

		if (strcmp(is, name) == 0 || (len > n && is[len - n - 1] == '/' &&
					      strcmp(is + len - n, name) == 0))
			return true;
	}
	return false;
}

/* of an index the one for this host, of several the one of that name */
static const char *choose(const struct json *index, const char *name, struct err *e)
{
	const struct json *all = json_member(index, "manifests"), *found = NULL;
	unsigned fits = 0, called = 0;

	for (size_t i = 0; i < json_count(all); i++) {
		const struct json *d = json_item(all, i);

		if (!json_is_object(d) || !fits_here(d))
			continue;
		if (is_called(d, name))
			called++;
		if (fits++ == 0 || (is_called(d, name) && called == 1))
			found = d;
	}
	if (fits == 1 || called == 1)
		return text_of(found, "digest");
	err_bad(e,
		fits ? "it has more than one image, and not one that is called '%s'"
		     : "it has no image for %s",
		fits ? name : manifest_architecture());
	return NULL;
}

static int add_layer(struct manifest *m, const char *name, const char *digest,
		     struct err *e)
{
	if (m->layers == MANIFEST_LAYERS)
		return err_bad(e, "it has more than %d layers", MANIFEST_LAYERS);
	snprintf(m->layer[m->layers].digest, BLOB_DIGEST, "%s", digest);
	m->layer[m->layers++].name = mem_copy(name);
	return 0;
}

/* index.json to a manifest; an index may name another one */
static struct json *find_oci(struct manifest *m, const struct blobs *b, const char *name,
			     struct err *e)
{
	struct json *v = parse(b, "index.json", e);

	for (int i = 0; v && json_member(v, "manifests"); i++) {
		const char *digest = choose(v, name, e);
		struct json *next = NULL;

		if (digest && i < NESTED_MOST) {
			next = parse_digest(b, digest, e);
			snprintf(m->digest, sizeof(m->digest), "%s",
				 blob_digest_ok(digest) ? digest : "");
		} else if (digest) {
			err_bad(e, "an index names an index, and so on");
		}
		json_free(v);
		v = next;
	}
	return v;
}

static int read_oci(struct manifest *m, const struct blobs *b, const char *name,
		    struct err *e)
{
	struct json *v = find_oci(m, b, name, e);
	const struct json *layers = v ? json_member(v, "layers") : NULL;
	char path[BLOB_PATH];
	int rc = v ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < json_count(layers); i++) {
		const char *digest = text_of(json_item(layers, i), "digest");

		rc = find_blob(b, digest, path, e) ? add_layer(m, path, digest, e) : -1;
	}
	if (rc == 0) {
		m->config = parse_digest(b, text_of(json_member(v, "config"), "digest"),
					 e);
		rc = m->config ? 0 : -1;
	}
	json_free(v);
	return rc;
}

static bool is_tagged(const struct json *one, const char *name)
{
	const struct json *tags = json_member(one, "RepoTags");

	for (size_t i = 0; i < json_count(tags); i++) {
		const char *tag = json_text(json_item(tags, i), NULL);
		const size_t len = tag ? strlen(tag) : 0, n = strlen(name);

		if (tag && len >= n && strcmp(tag + len - n, name) == 0 &&
		    (len == n || tag[len - n - 1] == '/'))
			return true;
	}
	return false;
}

static const struct json *choose_docker(const struct json *all, const char *name,
					struct err *e)
{
	const struct json *found = NULL;
	unsigned tagged = 0;

	if (json_count(all) == 1 && json_is_object(json_item(all, 0)))
		return json_item(all, 0);
	for (size_t i = 0; i < json_count(all); i++) {
		const struct json *one = json_item(all, i);

		if (json_is_object(one) && is_tagged(one, name)) {
			found = one;
			tagged++;
		}
	}
	if (tagged == 1)
		return found;
	err_bad(e, "it has %s, and not one that is called '%s'",
		json_count(all) ? "more than one image" : "no image", name);
	return NULL;
}

/* the configuration's name is its digest, in one place or another */
static int read_docker_config(struct manifest *m, const struct blobs *b, const char *path,
			      struct err *e)
{
	const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path;
	const struct blob *blob = blobs_find(b, path);
	char shown[TAR_SHOWN];

	snprintf(m->digest, sizeof(m->digest), "sha256:%.64s", begin);
	if (!blob)
		return err_bad(e, "the archive has no '%s'", tar_shown(path, shown));
	if (blob_digest_ok(m->digest)) {
		if (blobs_check(b, blob, m->digest, e) < 0)
			return -1;
	} else {
		m->digest[0] = '\0';
	}
	m->config = parse(b, path, e);
	return m->config ? 0 : -1;
}

static int read_docker(struct manifest *m, const struct blobs *b, const char *name,
		       struct err *e)
{
	struct json *v = parse(b, "manifest.json", e);
	const struct json *one = v ? choose_docker(v, name, e) : NULL;
	const struct json *layers = one ? json_member(one, "Layers") : NULL;
	char shown[TAR_SHOWN];
	int rc = one ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < json_count(layers); i++) {
		const char *path = json_text(json_item(layers, i), NULL);

		rc = !path || !blobs_find(b, path)
			     ? err_bad(e, "the archive has no '%s'",
				       tar_shown(path ? path : "", shown))
			     : add_layer(m, path, "", e);
	}
	if (rc == 0)
		rc = read_docker_config(m, b, text_of(one, "Config"), e);
	json_free(v);
	return rc;
}

/* what both kinds have */
static int read_config(struct manifest *m, struct err *e)
{
	const struct json *root = json_member(m->config, "rootfs");
	const struct json *ids = root ? json_member(root, "diff_ids") : NULL;
	const char *architecture = text_of(m->config, "architecture");
	char os[TAR_SHOWN], machine[TAR_SHOWN];

	if (!json_is_object(m->config) || m->layers == 0 || json_count(ids) != m->layers)
		return err_bad(e, "it is no image: its configuration does not name its "
				  "layers");
	for (size_t i = 0; i < m->layers; i++) {
		const char *id = json_text(json_item(ids, i), NULL);

		if (!id || !blob_digest_ok(id))
			return err_bad(e, "layer %zu has no sha256 digest", i + 1);
		memcpy(m->layer[i].diff_id, id, BLOB_DIGEST);
	}
	if (strcmp(architecture, manifest_architecture()) != 0 ||
	    strcmp(text_of(m->config, "os"), "linux") != 0)
		return err_bad(e, "it is for '%s/%s', and this is linux/%s",
			       tar_shown(text_of(m->config, "os"), os),
			       tar_shown(architecture, machine), manifest_architecture());
	snprintf(m->architecture, sizeof(m->architecture), "%s", architecture);
	return 0;
}

int manifest_read(struct manifest *m, const struct blobs *b, const char *name,
		  struct err *e)
{
	memset(m, 0, sizeof(*m));
	m->kind = manifest_kind(b);
	if ((m->kind == MANIFEST_OCI ? read_oci : read_docker)(m, b, name, e) < 0)
		return -1;
	return read_config(m, e);
}

void manifest_done(struct manifest *m)
{
	for (size_t i = 0; i < m->layers; i++)
		free(m->layer[i].name);
	json_free(m->config);
	memset(m, 0, sizeof(*m));
}
