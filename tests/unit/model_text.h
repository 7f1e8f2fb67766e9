/*
** model_text.h - a model from the text of a config, for tests.
*/
#ifndef TESTS_UNIT_MODEL_TEXT_H
#define TESTS_UNIT_MODEL_TEXT_H

#include <string.h>

#include "base/json.h"
#include "model/model.h"

static inline int model_of_text(const char *text, struct model *out,
                                struct err *e)
{
    json_t *root;
    struct js top;
    int rc = js_parse(text, strlen(text), "c.json", &root, e);

    if (rc != ERR_OK) return rc;
    top = js_top(root, "c.json");
    rc = model_from_json(&top, 0, out, e);
    json_decref(root);
    return rc;
}

#endif
