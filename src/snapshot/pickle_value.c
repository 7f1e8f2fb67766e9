/* pickle_value.c - looking at what was read, see pickle.h */
#include <string.h>

#include "snapshot/pickle.h"

unsigned pickle_held(const struct pickle *p)
{
    return p->type >= PICKLE_LIST && p->type <= PICKLE_DICT
         ? p->v.items->held : 0;
}

bool pickle_is(const struct pickle *s, const char *text)
{
    return s->type == PICKLE_STRING && s->len == strlen(text)
        && memcmp(s->v.s, text, s->len) == 0;
}

const struct pickle *pickle_get(const struct pickle *d, const char *key)
{
    const struct pickle_items *items = d->v.items;

    if (d->type != PICKLE_DICT || items->held != 0 || items->n > PICKLE_KEYS)
        return NULL;
    for (size_t i = items->n; i-- > 0;)
        if (pickle_is(&items->u.at[2 * i], key))
            return &items->u.at[2 * i + 1];
    return NULL;
}

const char *pickle_type_name(const struct pickle *p)
{
    static const char *const name[] = {
        "None", "a bool", "an integer", "a float", "a string", "a list",
        "a tuple", "a dict", "an integer beyond 64 bits"
    };
    return name[p->type];
}
