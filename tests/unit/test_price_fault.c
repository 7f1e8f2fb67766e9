/*
** test_price_fault.c - every host allocation fails once, jansson's too, while
** facts are read, priced and printed.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "fault.h"
#include "base/json.h"
#include "price/price_json.h"

/* The model stands inline, so that its reader is in the run. */
static char *facts_text(void)
{
    json_error_t why;
    json_t *model = json_load_file("lua/models/Qwen3.6-35B-A3B.json", 0, &why);
    json_t *v = json_pack(
        "{s:i, s:o, s:i, s:{s:i, s:i, s:i, s:i}, s:i, s:b, s:b, s:b, s:b,"
        " s:i, s:i, s:n, s:n, s:b, s:b, s:[i, i], s:[{s:b, s:s, s:[i, i],"
        " s:[i, i], s:n, s:[[{s:b, s:i, s:i, s:i, s:i}], []]}]}",
        "format", 1, "model", model, "layers", 8, "parallel", "cp", 2,
        "ep", 2, "tp", 1, "pp", 1, "lora_rank", 8, "cold", 1,
        "adapter_pending", 1, "moe_stages", 1, "routing_state", 1,
        "head_rows", 0, "output_bytes", 0, "hybridep_held_rows",
        "packed_length", "softmax_offset", 0, "cp_attention", 1, "block",
        128, 64, "groups", "grad", 1, "slot", "policy", "attention_rows", 128,
        0, "gdn_rows", 100, 28, "routed_rows", "stages", "local", 1, "q", 128,
        "k", 128, "q_len", 128, "k_len", 128);
    char *text = json_dumps(v, 0);

    json_decref(v);
    return text;
}

static int price(const struct price_facts *f, json_t **facts,
                 json_t **estimates, struct err *e)
{
    struct estimate *est = malloc(2 * sizeof *est);
    const struct estimate *list[2] = {est, est + 1};
    int64_t bound;
    int rc = est != NULL ? ERR_OK : err_nomem(e);

    if (rc == ERR_OK) rc = price_busiest_rank(f, est, e);
    if (rc == ERR_OK) rc = price_per_rank(f, est + 1, e);
    if (rc == ERR_OK) rc = price_lower_bound(f, &bound, e);
    if (rc == ERR_OK) rc = price_facts_to_json(f, facts, e);
    if (rc == ERR_OK) rc = price_estimates_to_json(list, 2, estimates, e);
    free(est);
    return rc;
}

/* *read: the text was parsed. */
static int run(const char *text, struct buf *out, bool *read, struct err *e)
{
    json_t *root, *facts = NULL, *estimates = NULL;
    struct price_facts f;
    struct js top;
    int rc = js_parse(text, strlen(text), "facts.json", &root, e);

    *read = rc == ERR_OK;
    if (rc != ERR_OK) return rc;
    top = js_top(root, "facts.json");
    rc = price_facts_from_json(&top, NULL, &f, e);
    if (rc == ERR_OK) {
        rc = price(&f, &facts, &estimates, e);
        price_facts_free(&f);
    }
    if (rc == ERR_OK) js_put(out, estimates);
    if (rc == ERR_OK && out->failed) rc = err_nomem(e);
    json_decref(root);
    json_decref(facts);
    json_decref(estimates);
    return rc;
}

/* The n-th failure is "out of host memory" and nothing else, but within the
** parser, which calls some of its own an invalid token; a run without one
** says the same as before. */
static void test_every_allocation(void **state)
{
    struct buf want = BUF_INIT, got = BUF_INIT;
    char *text = facts_text();
    struct err e;
    bool read;
    size_t n;

    (void)state;
    assert_non_null(text);
    json_set_alloc_funcs(malloc, free);
    fault_set(0);
    assert_int_equal(run(text, &want, &read, &e), ERR_OK);
    for (n = 1;; n++) {
        int rc;
        fault_set(n);
        rc = run(text, &got, &read, &e);
        if (!fault_reached()) break;
        fault_set(0);
        if (rc == ERR_OK) {     /* the parser did without it */
            assert_string_equal(buf_text(&got), buf_text(&want));
            buf_free(&got);
            continue;
        }
        if (!read) continue;
        if (rc != ERR_RUN || strcmp(e.text, "out of host memory") != 0)
            fail_msg("allocation %zu: code %d, %s", n, rc, e.text);
        buf_free(&got);
    }
    fault_set(0);
    assert_true(n > 500);
    assert_string_equal(buf_text(&got), buf_text(&want));
    buf_free(&want);
    buf_free(&got);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
