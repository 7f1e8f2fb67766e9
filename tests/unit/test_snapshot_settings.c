/*
** test_mem_config.c - settings as PYTORCH_CUDA_ALLOC_CONF spells them.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "snapshot/snapshot.h"

#define MIB (UINT64_C(1) << 20)

static struct mem_config parsed(const char *text)
{
    struct mem_config c = {0};
    struct err e = {0};

    if (settings_parse(&c, text, NULL, NULL, &e) != ERR_OK)
        print_error("%s: %s\n", text, e.text);
    assert_int_equal(e.code, 0);
    return c;
}

static void refused(const char *text, const char *why)
{
    struct mem_config c = {0};
    struct err e = {0};

    assert_int_equal(settings_parse(&c, text, NULL, NULL, &e), ERR_USAGE);
    if (strstr(e.text, why) == NULL) print_error("%s\n", e.text);
    assert_non_null(strstr(e.text, why));
}

static void divisions(const char *text, const uint32_t want[16])
{
    struct mem_config c = parsed(text);

    for (int i = 0; i < 16; i++)
        assert_int_equal(c.roundup_divisions[i], want[i]);
}

static void test_sizes(void **state)
{
    struct mem_config c = parsed("max_split_size_mb:512, "
                                 "max_non_split_rounding_mb:64,"
                                 "large_segment_size_mb:40,limit:80G");

    (void)state;
    assert_int_equal(c.max_split_bytes, 512 * MIB);
    assert_int_equal(c.max_non_split_rounding, 64 * MIB);
    assert_int_equal(c.large_segment_bytes, 40 * MIB);
    assert_int_equal(c.limit_bytes, 80000000000);
    c = parsed("");
    assert_int_equal(c.max_split_bytes, 0);
    c = parsed("backend:native,expandable_segments:False,"
               "garbage_collection_threshold:0.8,,");
    assert_int_equal(c.max_split_bytes, 0);
}

static void test_divisions(void **state)
{
    (void)state;
    divisions("roundup_power2_divisions:4",
              (uint32_t[16]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4});
    /* the first key also below it; ">" from the last key on; gaps stay off */
    divisions("roundup_power2_divisions:[64:8,256:4,>:1]",
              (uint32_t[16]){8, 8, 8, 8, 8, 8, 8, 0, 1, 1, 1, 1, 1, 1, 1, 1});
    divisions("roundup_power2_divisions:[1:2, 65536:16]",
              (uint32_t[16]){[0] = 2, [15] = 16});
    divisions("roundup_power2_divisions:[>:2]",
              (uint32_t[16]){2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
}

static void test_refusals(void **state)
{
    (void)state;
    refused("max_split_size_mb:19", "at least 20");
    refused("max_split_size_mb:1.5", "max_split_size_mb: \"1.5\"");
    refused("max_split_size_mb:99999999999999", "whole number of MiB");
    refused("large_segment_size_mb:9", "at least 10");
    refused("max_non_split_rounding_mb:", "at least 20");
    refused("expandable_segments:true", "\"true\" is not True or False");
    refused("backend:cudaMallocAsync", "only native can be replayed");
    refused("max_split_size:512", "not a setting of the allocator");
    refused("max_split_size_mb", "not key:value");
    refused("limit:lots", "not a number of bytes");
    refused("roundup_power2_divisions:3", "0 or a power of two");
    refused("roundup_power2_divisions:[64:3]", "0 or a power of two");
    refused("roundup_power2_divisions:[65:4]", "power of two in MiB");
    refused("roundup_power2_divisions:[64]", "pair MIB:DIVISIONS");
    refused("roundup_power2_divisions:[64:4", "a list");
    refused("roundup_power2_divisions:", "0 or a power of two");
}

/* What each setting of a recorded string means for a replay. */
static void note(void *ctx, const char *key, const char *value,
                 enum setting_effect effect)
{
    char *all = ctx;
    size_t n = strlen(all);

    snprintf(all + n, 400 - n, "%s=%s %d;", key, value, (int)effect);
}

static void test_effects(void **state)
{
    struct mem_config c = {0};
    char all[400] = "";
    struct err e;

    (void)state;
    assert_int_equal(settings_parse(&c, "max_split_size_mb:64, foo:1,"
        "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,"
        "garbage_collection_threshold:0.8,backend:native,backend:x", note,
        all, &e), ERR_OK);
    assert_string_equal(all, "max_split_size_mb=64 0;foo=1 2;"
        "per_process_memory_fraction=0.5 1;throw_on_cudamalloc_oom=True 1;"
        "garbage_collection_threshold=0.8 1;backend=native 1;backend=x 2;");
    assert_int_equal(c.max_split_bytes, 64 << 20);
    assert_true(parsed("expandable_segments:True").expandable);
    assert_false(parsed("expandable_segments:False").expandable);
    assert_int_equal(settings_parse(&c, "max_split_size_mb:1", note, all,
                                    &e), ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_effects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
