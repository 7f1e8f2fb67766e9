/*
** test_mem_snapshot.c - snapshots that are not what they should be: every
** complaint names its place; and no bytes whatever do harm.
*/
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "snapshot/account.h"
#include "snapshot_bytes.h"

/* ---- snapshots spelled as JSON ------------------------------------------ */

static void put_le(struct buf *b, uint64_t v, int width)
{
    for (int i = 0; i < width; i++) buf_putc(b, (char)(v >> 8 * i & 0xff));
}

/* {"tuple": [..]} stands for a tuple. */
static void put_json(struct buf *b, json_t *v)
{
    const char *key;
    size_t i;
    json_t *x;

    if (json_is_object(v) && json_object_get(v, "tuple") != NULL) {
        buf_putc(b, '(');
        json_array_foreach(json_object_get(v, "tuple"), i, x) put_json(b, x);
        buf_putc(b, 't');
    } else if (json_is_object(v)) {
        buf_puts(b, "}(");
        json_object_foreach(v, key, x) {
            buf_putc(b, 'X');
            put_le(b, strlen(key), 4);
            buf_puts(b, key);
            put_json(b, x);
        }
        buf_putc(b, 'u');
    } else if (json_is_array(v)) {
        buf_puts(b, "](");
        json_array_foreach(v, i, x) put_json(b, x);
        buf_putc(b, 'e');
    } else if (json_is_string(v)) {
        buf_putc(b, 'X');
        put_le(b, strlen(json_string_value(v)), 4);
        buf_puts(b, json_string_value(v));
    } else if (json_is_integer(v)) {
        buf_put(b, "\x8a\x08", 2);
        put_le(b, (uint64_t)json_integer_value(v), 8);
    } else {
        buf_putc(b, json_is_true(v) ? '\x88' : json_is_false(v) ? '\x89'
                                                                : 'N');
    }
}

/* text is JSON with ' for ". */
static int read_text(const char *text, struct snapshot *s, struct err *e)
{
    struct buf b = BUF_INIT;
    char *json = strdup(text);
    json_t *v = NULL;
    int rc;

    for (char *p = json; *p != '\0'; p++)
        if (*p == '\'') *p = '"';
    if (js_parse(json, strlen(json), "test", &v, e) != ERR_OK) {
        print_error("%s\n", e->text);
        fail();
    }
    buf_put(&b, "\x80\x04", 2);
    put_json(&b, v);
    buf_putc(&b, '.');
    rc = bytes_read(b.data, b.len, s, e);
    json_decref(v);
    buf_free(&b);
    free(json);
    return rc;
}

static void refused(const char *text, const char *want)
{
    struct snapshot s;
    struct err e = {0};

    assert_int_equal(read_text(text, &s, &e), ERR_INPUT);
    if (strcmp(e.text, want) != 0) print_error("%s\n", e.text);
    assert_string_equal(e.text, want);
}

/* Reads well; the replay of device 0 is refused. */
static void contradicts(const char *text, const char *want)
{
    struct snapshot s;
    struct replay r;
    struct err e = {0};

    if (read_text(text, &s, &e) != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    assert_int_equal(bytes_replay(&s, 0, &s.config, &r, &e), ERR_INPUT);
    if (strcmp(e.text, want) != 0) print_error("%s\n", e.text);
    assert_string_equal(e.text, want);
    snapshot_free(&s);
}

#define TRACE(events) \
    "{'segments': [], 'device_traces': [[" events "]]}"
#define SEGMENT(members) \
    "{'segments': [{'device': 0, 'address': 1048576, 'stream': 0, " \
    "'total_size': 2097152" members "}], 'device_traces': [[]]}"
#define OTHER "{'action': 'snapshot', 'addr': 0}"
#define BLOCKS(blocks) SEGMENT(", 'blocks': [" blocks "]")

/* ---- the layout --------------------------------------------------------- */

static void test_top(void **state)
{
    (void)state;
    refused("{'tuple': []}", "f: snapshot: must be a dict, is a tuple");
    refused("[1]", "f: device: must be an integer from 0, is missing");
    refused("{'segments': []}",
            "f: device_traces: must be a list, is missing");
    refused("{'device_traces': [[]]}",
            "f: segments: must be a list, is missing");
    refused("{'segments': [], 'device_traces': [{}]}",
            "f: device_traces: must be a list, is a dict");
    refused("{'segments': 1, 'device_traces': []}",
            "f: segments: must be a list, is an integer");
    refused("{'segments': [{'action': 'oom', 'size': 1}], 'device_traces': "
            "[]}", "f: segments: holds what does not belong there");
}

static void test_events(void **state)
{
    (void)state;
    refused(TRACE("7"), "f: device 0, event 0: action: must be a string, is "
            "missing");
    refused(TRACE("{'action': 3, 'addr': 7}"), "f: device 0, event 0: action: "
            "must be a string, is an integer");
    refused(TRACE(OTHER ", 7"), "f: byte 98: device_traces: event 1: action: "
            "must be a string, is missing");
    refused(TRACE("{'action': 'alloc', 'size': 1, 'stream': 0}"),
            "f: device 0, event 0: addr: must be an integer from 0, is "
            "missing");
    refused(TRACE("{'action': 'alloc', 'addr': 513, 'size': 1, 'stream': 0}"),
            "f: device 0, event 0: addr: is no block's address");
    refused(TRACE(OTHER ", {'action': 'alloc', 'addr': 512, 'size': -1}"),
            "f: device 0, event 1: size: must be an integer from 0, is an "
            "integer");
    refused(TRACE("{'action': 'alloc', 'addr': 512, "
                  "'size': 2000000000000000, 'stream': 0}"),
            "f: device 0, event 0: size: is over 1 PiB");
    refused(TRACE("{'action': 'alloc', 'addr': 512, 'size': 0, 'stream': 0}"),
            "f: device 0, event 0: size: is 0");
    refused(TRACE("{'action': 'alloc', 'addr': 512, 'size': 1}"),
            "f: device 0, event 0: stream: must be an integer from 0, is "
            "missing");
    refused(TRACE("{'action': 'alloc', 'addr': 512, 'size': 1, 'stream': 0, "
                  "'pool_id': {'tuple': [0, 1, 2]}}"),
            "f: device 0, event 0: pool_id: must be a pair of numbers");
    /* one in the host's trace does not hide it */
    refused("{'host_traces': [[{'action': 'alloc', 'addr': 3, 'size': 1}]], "
            "'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': "
            "7, 'size': 1, 'stream': 0}]]}",
            "f: device 0, event 0: addr, size or stream is not right");
    /* of the second device, by its own count */
    refused("{'segments': [], 'device_traces': [[" OTHER "], [" OTHER ", "
            "{'action': 'alloc', 'addr': 513, 'size': 1}]]}",
            "f: device 1, event 1: addr: is no block's address");
}

static struct snapshot good(const char *text)
{
    struct snapshot s = {0};
    struct err e = {0};

    if (read_text(text, &s, &e) != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    return s;
}

/* What is not known is passed over and named. */
static void test_unknown(void **state)
{
    struct snapshot s = good(TRACE(OTHER ", {'action': 'grow', 'addr': 3}, "
        "{'action': 'grow', 'size': 3}, {'action': 'trim\\u001b', 'x': 1}"));

    (void)state;
    assert_int_equal(s.device[0].n_event, 4);
    assert_int_equal(s.device[0].event[1].action, SNAPSHOT_OTHER);
    assert_int_equal(s.n_unknown, 2);
    assert_string_equal(s.unknown[0].action, "grow");
    assert_int_equal(s.unknown[0].events, 2);
    assert_string_equal(s.unknown[1].action, "trim?");
    snapshot_free(&s);
}

/* Torch's own list of segments, without traces. */
static void test_segments_alone(void **state)
{
    struct snapshot s = good("[{'device': 1, 'address': 1048576, 'stream': 0, "
        "'total_size': 1024, 'blocks': [{'size': 1024, 'state': "
        "'active_allocated', 'requested_size': 1000}]}]");

    (void)state;
    assert_true(s.segments_alone);
    assert_int_equal(s.n_device, 2);
    assert_int_equal(s.device[1].n_block, 1);
    assert_int_equal(s.device[1].block[0].requested, 1000);
    snapshot_free(&s);
    s = good("[]");
    assert_int_equal(s.n_device, 0);
    snapshot_free(&s);
    refused("[{'device': 1024}]", "f: device: more than 1024 devices");
}

static void test_lanes_and_notes(void **state)
{
    struct snapshot s = good("{'segments': [], 'device_traces': [[" OTHER ", "
        "{'action': 'alloc', 'addr': 512, 'size': 1, 'stream': 5, 'pool_id': "
        "{'tuple': [0, 1]}, 'time_us': 7, 'category': 'a'}, "
        "{'action': 'oom', 'size': 9, 'device_free': 3}]], "
        "'external_annotations': [{'stage': 'START', 'name': 'step', "
        "'device': 0, 'time_us': 4}, {'stage': 'START', 'name': 'in', "
        "'time_us': 5}, {'stage': 'END', 'name': 'step', 'device': 0, "
        "'time_us': 9}]}");
    const struct snapshot_event *v = s.device[0].event;

    (void)state;
    assert_int_equal(s.n_lane, 2);
    assert_int_equal(s.lane[v[1].lane].stream, 5);
    assert_int_equal(s.lane[v[1].lane].pool[1], 1);
    assert_int_equal(v[1].time_us, 7);
    assert_string_equal(s.category[v[1].category - 1], "a");
    assert_int_equal(v[2].bytes, 9);
    assert_int_equal(v[2].addr, 3);
    assert_int_equal(s.n_note, 2);
    assert_string_equal(s.note[0].name, "step");
    assert_int_equal(s.note[0].start_us, 4);
    assert_int_equal(s.note[0].end_us, 9);
    assert_int_equal(s.note[1].device, -1);
    assert_true(s.note[1].end_us == INT64_MAX);
    snapshot_free(&s);
}

/* Frames are kept once, and so are stacks. */
static void test_stacks(void **state)
{
#define F(name, line) \
    "{'name': '" name "', 'filename': 'm.py', 'line': " line "}"
#define V(frames) "{'action': 'snapshot', 'addr': 0, 'frames': [" frames "]}"
    struct snapshot s = good(TRACE(V(F("f", "1") ", " F("g", "2")) ", "
        V(F("g", "2")) ", " V(F("f", "1") ", " F("g", "2")) ", " V("")));
    const struct snapshot_event *v = s.device[0].event;

    (void)state;
    assert_int_equal(s.stacks.n_frame, 2);
    assert_int_equal(v[0].stack, v[2].stack);
    assert_int_not_equal(v[0].stack, v[1].stack);
    assert_int_equal(v[3].stack, 0);
    assert_int_equal(stacks_depth(&s.stacks, v[0].stack), 2);
    assert_string_equal(stacks_at(&s.stacks, v[0].stack, 0)->name, "f");
    assert_int_equal(stacks_at(&s.stacks, v[1].stack, 0)->line, 2);
    snapshot_free(&s);
}

static void test_segments(void **state)
{
    (void)state;
    refused("{'segments': [{'device': 1}], 'device_traces': [[]]}",
            "f: device 0, segment 0: device: has no trace");
    refused("{'segments': [{'device': 0, 'address': 0}], "
            "'device_traces': [[]]}",
            "f: device 0, segment 0: address: is no block's address");
    refused(SEGMENT(""), "f: device 0, segment 0: blocks: must be a list, is "
            "missing");
    refused(SEGMENT(", 'segment_pool_id': [1, 0]"), "f: device 0, "
            "segment 0: segment_pool_id: must be a pair of numbers");
    refused(BLOCKS(""), "f: device 0, segment 0: blocks: do not tile the "
            "segment");
    refused(BLOCKS("{'size': 2097664, 'state': 'inactive'}"), "f: device 0, "
            "segment 0: blocks: do not tile the segment");
    refused(BLOCKS("{'size': 1048576, 'state': 'inactive'}, {'size': 1048576,"
                   " 'state': 'inactive', 'address': 512}"),
            "f: device 0, segment 0: blocks: do not tile the segment");
    refused(BLOCKS("{'size': 2097152, 'state': 'idle'}"), "f: device 0, "
            "segment 0: state: is none that is known");
    refused(BLOCKS("{'size': 2097152, 'state': 'active_allocated', "
                   "'requested_size': 2097153}"), "f: device 0, segment 0: "
            "requested_size: is not that of a block in use");
    refused("{'segments': [{'device': 0, 'address': 1024, 'stream': 0, "
            "'total_size': 1024, 'blocks': [{'size': 1024, 'state': "
            "'inactive'}]}, {'device': 0, 'address': 512, 'stream': 0, "
            "'total_size': 1024, 'blocks': [{'size': 1024, 'state': "
            "'inactive'}]}], 'device_traces': [[]]}",
            "f: segments: overlap");
}

#define SETTINGS(members) "{'segments': [], 'device_traces': [], " \
    "'allocator_settings': {" members "}}"

static void test_settings(void **state)
{
    struct snapshot s;
    struct err e;

    (void)state;
    assert_int_equal(read_text(SETTINGS("'PYTORCH_CUDA_ALLOC_CONF': "
        "'max_split_size_mb:64,large_segment_size_mb:32', 'max_split_size': "
        "67108864, 'expandable_segments': false, "
        "'roundup_power2_divisions': {'1': 4, '32768': 8}"), &s, &e), ERR_OK);
    assert_int_equal(s.config.max_split_bytes, 64 << 20);
    assert_int_equal(s.config.large_segment_bytes, 32 << 20);
    assert_int_equal(s.config.roundup_divisions[0], 4);
    assert_int_equal(s.config.roundup_divisions[1], 0);
    assert_int_equal(s.config.roundup_divisions[15], 8);
    snapshot_free(&s);
    assert_int_equal(read_text(SETTINGS("'max_split_size': -1"), &s, &e),
                     ERR_OK);
    assert_int_equal(s.config.max_split_bytes, 0);
    snapshot_free(&s);
    assert_int_equal(read_text(SETTINGS("'PYTORCH_CUDA_ALLOC_CONF': "
        "'backend:other,foo:1,throw_on_cudamalloc_oom:True', "
        "'trace_alloc_overflowed': true, 'trace_alloc_max_entries': 7"), &s,
        &e), ERR_OK);
    assert_string_equal(s.reason, "backend:other");
    assert_string_equal(s.idle, "throw_on_cudamalloc_oom:True");
    assert_true(s.overflowed);
    assert_int_equal(s.max_entries, 7);
    snapshot_free(&s);
    assert_int_equal(read_text(SETTINGS("'roundup_power2_divisions': {'1': 3, "
                                        "'2': 4}"), &s, &e), ERR_OK);
    assert_string_equal(s.reason, "roundup_power2_divisions:not a power of "
                        "two");
    assert_int_equal(s.config.roundup_divisions[1], 4);
    snapshot_free(&s);
}

/* ---- traces that contradict the end ------------------------------------- */

#define EVENT(action, addr, size) "{'action': '" action "', 'addr': " addr \
    ", 'size': " size ", 'stream': 0}"

static void test_contradictions(void **state)
{
    (void)state;
    contradicts(TRACE(EVENT("alloc", "512", "5")), "f: device 0, event 0: "
                "alloc at 0x200 does not fit what comes after it");
    contradicts(TRACE(EVENT("free_requested", "512", "5") ", "
                      EVENT("free_completed", "512", "5") ", "
                      EVENT("free_completed", "512", "5")),
                "f: device 0, event 1: free at 0x200 does not fit what comes "
                "after it");
    contradicts(TRACE(EVENT("free_requested", "1024", "5") ", "
                      EVENT("free_completed", "512", "5")),
                "f: device 0, event 0: free at 0x400 does not fit what comes "
                "after it");
    contradicts(TRACE(EVENT("free_completed", "512", "5")),
                "f: device 0: at the start of the trace the block at 0x200 "
                "overlaps another or lies in no segment");
    contradicts(TRACE(EVENT("segment_alloc", "512", "1024")),
                "f: device 0, event 0: segment_alloc at 0x200 does not fit "
                "what comes after it");
    contradicts(TRACE(EVENT("segment_free", "1024", "2048") ", "
                      EVENT("segment_free", "512", "1024")),
                "f: device 0: segments overlap at 0x400");
    contradicts(TRACE(EVENT("free_completed", "512", "512") ", "
                      EVENT("free_completed", "1024", "513") ", "
                      EVENT("free_completed", "1536", "1") ", "
                      EVENT("segment_free", "512", "2097152")),
                "f: device 0: at the start of the trace the block at 0x400 "
                "overlaps another or lies in no segment");
}

/* ---- hostile files ------------------------------------------------------ */

/* One event, named again and again, in a list named again and again. */
static void test_more_elements_than_bytes(void **state)
{
    static const char start[] =
        "\x80\x04}(\x8c\x08segments]\x8c\x0d" "device_traces](]\x94(}"
        "(\x8c\x06" "action\x8c\x03oom\x8c\x04sizeK\1uq\x01";
    struct buf b = BUF_INIT;
    struct snapshot s;
    struct err e = {0};

    (void)state;
    buf_put(&b, start, sizeof start - 1);
    for (int i = 0; i < 2000; i++) buf_put(&b, "h\x01", 2);
    buf_putc(&b, 'e');
    for (int i = 0; i < 900; i++) buf_put(&b, "h\0", 2);
    buf_puts(&b, "eu.");
    assert_int_equal(bytes_read(b.data, b.len, &s, &e), ERR_INPUT);
    assert_string_equal(e.text, "f: device_traces: the file names more "
                        "elements than it has bytes");
    buf_free(&b);
}

static void read_and_replay(const char *data, size_t len, int *good)
{
    struct account_ask ask = {.by = BY_FRAME};
    struct snapshot s;
    struct account a;
    struct err e;

    if (bytes_read(data, len, &s, &e) != ERR_OK) {
        assert_int_equal(e.code, ERR_INPUT);
        return;
    }
    for (int64_t d = 0; d < s.n_device; d++) {
        int rc = account_device(&s, d, "f", &ask, &a, &e);

        assert_true(rc == ERR_OK || rc == ERR_INPUT || rc == ERR_USAGE);
        if (rc != ERR_OK) continue;
        json_decref(account_json(&a, &ask));
        account_free(&a);
        ++*good;
    }
    snapshot_free(&s);
}

/* A few bytes changed anywhere. */
static void test_mutations(void **state)
{
    const char *seed = getenv("PEAKPROOF_SEED");
    uint64_t x = seed != NULL ? strtoull(seed, NULL, 10) : 1;
    struct buf b = BUF_INIT;
    int good = 0;
    struct err e;

    (void)state;
    printf("PEAKPROOF_SEED=%" PRIu64 "\n", x);
    assert_int_equal(file_read("tests/fuzz/corpus/snapshot/protocol4",
                               1 << 20, &b, &e), ERR_OK);
    x = x * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 6000; i++) {
        char *copy = malloc(b.len);

        memcpy(copy, b.data, b.len);
        for (int k = 0; k <= i % 3; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            copy[x % b.len] = (char)(x >> 56);
        }
        read_and_replay(copy, b.len, &good);
        free(copy);
    }
    assert_true(good > 100);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_segments_alone),
        cmocka_unit_test(test_lanes_and_notes),
        cmocka_unit_test(test_stacks),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_contradictions),
        cmocka_unit_test(test_more_elements_than_bytes),
        cmocka_unit_test(test_mutations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
