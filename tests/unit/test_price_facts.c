/* FACTS.json: what is read, what is refused and by which key, round trips. */
#include <jansson.h>

#include "price_help.h"
#include "base/json.h"
#include "price/price_json.h"

static const char whole[] =
"{\"format\": 1, \"model\": \"Qwen3.6-35B-A3B.json\", \"layers\": 40,"
" \"parallel\": {\"cp\": 2, \"ep\": 2, \"tp\": 1, \"pp\": 1},"
" \"lora_rank\": 8, \"cold\": true, \"adapter_pending\": true,"
" \"moe_stages\": true, \"routing_state\": true, \"head_rows\": 0,"
" \"output_bytes\": 0, \"hybridep_held_rows\": null,"
" \"packed_length\": null, \"softmax_offset\": false,"
" \"cp_attention\": true, \"block\": [128, 64],"
" \"groups\": [{\"grad\": true, \"slot\": \"policy\","
"  \"attention_rows\": [52480, 44314], \"gdn_rows\": [48194, 48600],"
"  \"routed_rows\": null, \"stages\": [["
"   {\"local\": true, \"q\": 52480, \"k\": 52480, \"q_len\": 52480,"
"    \"k_len\": 52480, \"q_full\": true}], ["
"   {\"local\": true, \"q\": 44314, \"k\": 44314, \"q_len\": 44352,"
"    \"k_len\": 44352},"
"   {\"local\": false, \"q\": 44314, \"k\": 16504, \"q_len\": 44352,"
"    \"k_len\": 16512}]]}]}";

static json_t *base(void)
{
    json_t *v = json_loads(whole, 0, NULL);
    assert_non_null(v);
    return v;
}

static int read_json(json_t *v, struct price_facts *f, struct err *e)
{
    struct js top = js_top(v, "facts.json");
    return price_facts_from_json(&top, "lua/models", f, e);
}

static void test_reads(void **state)
{
    json_t *v = base();
    struct price_facts f;
    struct estimate *est;
    struct err e;

    (void)state;
    if (read_json(v, &f, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_int_equal(f.cp, 2);
    assert_int_equal(f.ep, 2);
    assert_true(f.cold && f.moe_stages && f.routing_state && f.cp_attention);
    assert_int_equal(f.hybridep_held_rows, -1);
    assert_int_equal(f.packed_length, -1);
    assert_int_equal(f.k_block, 64);
    assert_int_equal(f.pending[0], 12017664);
    assert_int_equal(f.pending[40], 0);
    assert_int_equal(f.group[0].routed_rows, -1);
    assert_true(f.group[0].stage[1][1].q_full);     /* q is all its rows */
    assert_true(f.group[0].stage[1][0].k_full);
    assert_false(f.group[0].stage[1][1].k_full);
    est = help_price(&f, true, PRICE_AS_IS);
    assert_int_equal(est->raw, 25818107903);
    free(est);
    price_facts_free(&f);
    json_decref(v);
}

/* Where a change goes: a path of keys and indices, the last one is set (or
** taken away, value NULL). */
static void change(json_t *v, const char *path, const char *value)
{
    char key[64];
    json_t *at = v, *new = NULL;

    if (value != NULL) new = json_loads(value, JSON_DECODE_ANY, NULL);
    for (;;) {
        size_t n = strcspn(path, "/");
        assert_true(n < sizeof key);
        memcpy(key, path, n);
        key[n] = '\0';
        path += n;
        if (*path == '\0') break;
        path++;
        at = json_is_array(at) ? json_array_get(at, strtoul(key, NULL, 10))
                               : json_object_get(at, key);
        assert_non_null(at);
    }
    if (json_is_array(at))
        json_array_set_new(at, strtoul(key, NULL, 10), new);
    else if (new == NULL)
        assert_int_equal(json_object_del(at, key), 0);
    else
        json_object_set_new(at, key, new);
}

/* The change is refused, by reader or estimator, and the message holds word:
** the key as the reader's path. */
static void refused(const char *path, const char *value, const char *word)
{
    json_t *v = base();
    struct price_facts f;
    struct estimate *est = malloc(sizeof *est);
    struct err e = {0};
    int rc;

    change(v, path, value);
    rc = read_json(v, &f, &e);
    if (rc == ERR_OK) {
        rc = price_busiest_rank(&f, est, &e);
        if (rc == ERR_OK) rc = price_per_rank(&f, est, &e);
        price_facts_free(&f);
    }
    if (rc != ERR_INPUT)
        fail_msg("%s = %s is accepted", path, value ? value : "(gone)");
    if (strstr(e.text, word) == NULL) fail_msg("no %s in: %s", word, e.text);
    free(est);
    json_decref(v);
}

static void test_every_key_is_needed(void **state)
{
    static const char *const keys[] = {
        "format", "model", "layers", "parallel", "lora_rank", "cold",
        "adapter_pending", "moe_stages", "routing_state", "head_rows",
        "output_bytes", "softmax_offset", "cp_attention", "block", "groups",
    };
    static const char *const nested[][2] = {
        {"parallel/cp", "parallel.cp"}, {"parallel/ep", "parallel.ep"},
        {"parallel/tp", "parallel.tp"}, {"parallel/pp", "parallel.pp"},
        {"groups/0/grad", "groups[0].grad"},
        {"groups/0/slot", "groups[0].slot"},
        {"groups/0/attention_rows", "groups[0].attention_rows"},
        {"groups/0/gdn_rows", "groups[0].gdn_rows"},
        {"groups/0/stages", "groups[0].stages: missing"},
        {"groups/0/stages/1/0/local", "groups[0].stages[1][0].local"},
        {"groups/0/stages/1/0/q", "groups[0].stages[1][0].q"},
        {"groups/0/stages/1/0/k", "groups[0].stages[1][0].k"},
        {"groups/0/stages/1/0/q_len", "groups[0].stages[1][0].q_len"},
        {"groups/0/stages/1/0/k_len", "groups[0].stages[1][0].k_len"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        refused(keys[i], NULL, keys[i]);
        refused(keys[i], "\"x\"", keys[i]);
        refused(keys[i], "null", keys[i]);
        refused(keys[i], "1.5", keys[i]);
    }
    for (i = 0; i < sizeof nested / sizeof nested[0]; i++)
        refused(nested[i][0], NULL, nested[i][1]);
}

static void test_numbers(void **state)
{
    static const char *const keys[][2] = {
        {"layers", "layers"}, {"lora_rank", "lora_rank"},
        {"head_rows", "head_rows"}, {"output_bytes", "output_bytes"},
        {"hybridep_held_rows", "hybridep_held_rows"},
        {"packed_length", "packed_length"},
        {"parallel/cp", "parallel.cp"}, {"parallel/ep", "parallel.ep"},
        {"parallel/tp", "parallel.tp"}, {"parallel/pp", "parallel.pp"},
        {"block/0", "block[0]"}, {"block/1", "block[1]"},
        {"groups/0/attention_rows/1", "groups[0].attention_rows[1]"},
        {"groups/0/gdn_rows/0", "groups[0].gdn_rows[0]"},
        {"groups/0/routed_rows", "groups[0].routed_rows"},
        {"groups/0/stages/1/1/q", "groups[0].stages[1][1].q"},
        {"groups/0/stages/1/1/k", "groups[0].stages[1][1].k"},
        {"groups/0/stages/1/1/q_len", "groups[0].stages[1][1].q_len"},
        {"groups/0/stages/1/1/k_len", "groups[0].stages[1][1].k_len"},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        refused(keys[i][0], "-1", keys[i][1]);
        refused(keys[i][0], "9223372036854775807", keys[i][1]);
        if (strcmp(keys[i][0], "output_bytes") != 0)
            refused(keys[i][0], "1099511627776", keys[i][1]);   /* 2^40 */
        refused(keys[i][0], "true", keys[i][1]);
    }
    refused("layers", "0", "layers");
    refused("layers", "41", "layers");
    refused("format", "2", "format");
    refused("parallel/cp", "0", "parallel.cp");
    refused("parallel/ep", "3", "parallel.ep");
    refused("block/0", "0", "block[0]");
}

static void test_meaning(void **state)
{
    (void)state;
    refused("extra", "1", "extra");
    refused("cp_atention", "true", "cp_attention");     /* a suggestion */
    refused("parallel/dp", "1", "dp");
    refused("groups/0/rows", "[1,2]", "rows");
    refused("groups/0/stages/0/0/slices", "1", "slices");
    refused("groups", "[]", "groups");
    refused("groups/0/attention_rows", "[1]", "attention_rows");
    refused("groups/0/stages", "[[]]", "stages");
    refused("groups/0/attention_retained", "[1,2]", "attention_retained");
    refused("groups/0/stages/1/1/q", "44315", "stages[1][1].q");
    refused("groups/0/stages/1/0/k", "44315", "stages[1][0].k");
    refused("groups/0/stages/1/0/q_len", "44313", "stages[1][0].q_len");
    refused("groups/0/stages/1/0/k_len", "44313", "stages[1][0].k_len");
    refused("groups/0/stages/1/1/local", "true", "stages[1][1].local");
    refused("groups/0/slot", "7", "slot");
    refused("adapter_pending", "[1,2]", "adapter_pending");
    refused("adapter_pending", "7", "adapter_pending");
    refused("block", "[128]", "block");
    refused("hybridep_held_rows", "0", "packed_length");
    refused("model", "\"none.json\"", "none.json");
    refused("model", "{\"model_type\":\"bert\"}", "model.model_type");
    refused("model", "[]", "model");
}

static void test_zero_rows(void **state)
{
    json_t *v = base();
    struct price_facts f;
    struct err e;

    (void)state;
    change(v, "groups/0/attention_rows", "[0,0]");
    change(v, "groups/0/gdn_rows", "[0,0]");
    change(v, "groups/0/stages", "[[],[]]");
    assert_int_equal(read_json(v, &f, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "groups[0].attention_rows"));
    json_decref(v);
}

/* A rank or a layout may be empty, and what may be null may be left out. */
static void test_accepted(void **state)
{
    json_t *v = base(), *model;
    struct price_facts f;
    struct err e;

    (void)state;
    change(v, "groups/0/routed_rows", NULL);
    change(v, "hybridep_held_rows", NULL);
    change(v, "packed_length", NULL);
    change(v, "adapter_pending", "false");
    change(v, "groups/0/slot", "null");
    change(v, "groups/0/attention_rows", "[2047,0]");
    change(v, "groups/0/gdn_rows", "[0,2047]");
    change(v, "groups/0/stages", NULL);
    change(v, "groups/0/attention_retained", "[5,0]");
    model = json_load_file(QWEN36, 0, NULL);
    json_object_set_new(v, "model", model);
    change(v, "layers", "8");
    if (read_json(v, &f, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_string_equal(f.group[0].slot, PRICE_BASE_SLOT);
    assert_string_equal(f.model->name, "inline");
    assert_int_equal(f.model->layers, 8);
    assert_null(f.pending);
    assert_int_equal(f.group[0].attention_retained[0], 5);
    price_facts_free(&f);
    json_decref(v);
}

/* What is written reads back as the same facts, an inline model too. */
static void round_trip(json_t *v)
{
    struct price_facts f, g;
    json_t *once, *twice;
    struct err e;

    if (read_json(v, &f, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_int_equal(price_facts_to_json(&f, &once, &e), ERR_OK);
    if (read_json(once, &g, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_int_equal(price_facts_to_json(&g, &twice, &e), ERR_OK);
    assert_true(json_equal(once, twice));
    assert_true(json_equal(json_object_get(v, "model"),
                           json_object_get(once, "model")));
    assert_true(json_equal(json_object_get(v, "adapter_pending"),
                           json_object_get(once, "adapter_pending")));
    price_facts_free(&f);
    price_facts_free(&g);
    json_decref(once);
    json_decref(twice);
}

/* Rows that peers fetch, a list a rank, all as long as the first. */
static void test_sent_rows(void **state)
{
    json_t *v = base();
    struct price_facts f;
    struct err e;

    (void)state;
    change(v, "groups/0/sent_rows", "[[0,16504,3],[0,0,1]]");
    if (read_json(v, &f, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_int_equal(f.group[0].n_sent, 3);
    assert_int_equal(f.group[0].sent_rows[1], 16504);
    assert_int_equal(f.group[0].sent_rows[5], 1);
    price_facts_free(&f);
    round_trip(v);
    json_decref(v);
    refused("groups/0/gdn_sent", "[0]", "groups[0].gdn_sent");
    refused("groups/0/sent_rows", "[[0,5]]", "groups[0].sent_rows");
    refused("groups/0/sent_rows", "[[0,5],[0]]", "groups[0].sent_rows[1]");
    refused("groups/0/sent_rows", "[[0,5],[0,-1]]",
            "groups[0].sent_rows[1][1]");
    refused("groups/0/sent_rows", "7", "groups[0].sent_rows");
}

static void test_round_trips(void **state)
{
    json_t *v = base();

    (void)state;
    round_trip(v);
    change(v, "adapter_pending", "[1,2,3,4,5,6,7,8,9]");
    change(v, "layers", "8");
    change(v, "groups/0/stages/1/1/q_full", "false");
    change(v, "hybridep_held_rows", "512");
    change(v, "packed_length", "52480");
    change(v, "groups/0/gdn_states", "[3,2]");
    change(v, "groups/0/gdn_sent", "[1,0]");
    round_trip(v);
    json_object_set_new(v, "model", json_load_file(QWEN36, 0, NULL));
    round_trip(v);
    json_decref(v);
}

/* A plan's facts carry its rows and stages, and price like the same file. */
static void test_from_plan(void **state)
{
    struct model m = help_model(QWEN36, 0);
    struct two_ranks t = help_real;
    struct rank_plan rank[2] = {
        {.attention_rows = t.attention[0], .gdn_rows = t.gdn[0],
         .stage = t.at[0], .n_stage = 1},
        {.attention_rows = t.attention[1], .gdn_rows = t.gdn[1],
         .stage = t.at[1], .n_stage = 2},
    };
    struct plan p = {.cp = 2, .rank = rank};
    struct price_facts f;
    struct estimate *est;
    json_t *v, *want = base();
    struct err e;

    (void)state;
    assert_int_equal(price_facts_from_plan(&m, &p, 2, 8, &f, &e), ERR_OK);
    assert_false(f.cold);
    assert_null(f.pending);
    f.cold = true;
    help_pending(&f);
    est = help_price(&f, true, PRICE_AS_IS);
    assert_int_equal(est->raw, 25818107903);
    free(est);
    assert_int_equal(price_facts_to_json(&f, &v, &e), ERR_OK);
    change(want, "groups/0/stages/1/0/q_full", "true");
    change(want, "groups/0/stages/1/1/q_full", "true");
    assert_true(json_equal(v, want));
    json_decref(v);
    json_decref(want);
    price_facts_free(&f);
    model_free(&m);
}

/* A state that two pieces of a rank start from comes to it once; those that
** leave a rank at one level have their gradients back together. */
static void test_states(void **state)
{
    struct gdn_piece of[3][3] = {
        {{.from_rank = -1}, {.from_rank = 0, .from_piece = 0}},
        {{.from_rank = 0, .from_piece = 0}, {.from_rank = 0, .from_piece = 0}},
        {{.from_rank = 0, .from_piece = 0}, {.from_rank = 1, .from_piece = 0},
         {.from_rank = 0, .from_piece = 1}},
    };
    static const int64_t states[3] = {2, 3, 6}, sent[3] = {2, 1, 0};
    struct model m = help_model(QWEN36, 4);
    struct rank_plan rank[3] = {{.n_piece = 2}, {.n_piece = 2},
                                {.n_piece = 3}};
    struct plan p = {.cp = 3, .exact = true, .rank = rank};
    struct price_facts f;
    struct err e;
    int r;

    (void)state;
    for (r = 0; r < 3; r++) rank[r].piece = of[r];
    assert_int_equal(price_facts_from_plan(&m, &p, 1, 8, &f, &e), ERR_OK);
    for (r = 0; r < 3; r++) {
        assert_int_equal(f.group[0].gdn_states[r], states[r]);
        assert_int_equal(f.group[0].gdn_sent[r], sent[r]);
    }
    price_facts_free(&f);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_every_key_is_needed),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_meaning),
        cmocka_unit_test(test_zero_rows),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_sent_rows),
        cmocka_unit_test(test_from_plan),
        cmocka_unit_test(test_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
