/*
** golden_text.h - a text to the byte as a file says it. On a difference the
** new text is written beside it with ".got" at its end; GOLDEN_ACCEPT=1 puts
** it in its place.
*/
#ifndef TESTS_UNIT_GOLDEN_TEXT_H
#define TESTS_UNIT_GOLDEN_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"

static inline void golden_text(const struct buf *have, const char *golden)
{
    struct buf want = BUF_INIT, got = BUF_INIT;
    const char *accept = getenv("GOLDEN_ACCEPT");
    struct err e;
    bool same;

    assert_false(have->failed);
    same = accept == NULL && file_read(golden, 1 << 24, &want, &e) == ERR_OK &&
           want.len == have->len &&
           memcmp(buf_text(&want), buf_text(have), have->len) == 0;
    buf_free(&want);
    if (same) return;
    buf_printf(&got, "%s%s", golden, accept ? "" : ".got");
    if (file_write(got.data, buf_text(have), have->len, &e) != ERR_OK)
        fail_msg("%s", e.text);
    if (accept == NULL) fail_msg("%s differs: see %s", golden, got.data);
    buf_free(&got);
}

#endif
