/* weights_map.c - see weights_map.h */
#include "model/weights_map.h"

#include <stdio.h>
#include <string.h>

#include "model/family.h"

#define NAME 256

void stored_full_name(const struct model *m, int64_t layer,
                      const char *tensor, char *out, size_t cap)
{
    if (layer >= 0)
        snprintf(out, cap, "%slayers.%lld.%s", m->prefix, (long long)layer,
                 tensor);
    else if (strcmp(tensor, "lm_head.weight") == 0)
        snprintf(out, cap, "%s", tensor);
    else
        snprintf(out, cap, "%s%s", m->prefix, tensor);
}

static bool has(const struct checkpoint *c, const struct model *m,
                const struct param *p, const char *tensor)
{
    char name[NAME];

    stored_full_name(m, p->layer, tensor, name, sizeof name);
    return checkpoint_get(c, name) != NULL;
}

static void expert_name(const struct model *m, const struct param *p,
                        int64_t i, char *out)
{
    const struct family_names *f = m->names;
    bool down = p->site == SITE_EXPERT_DOWN;
    const char *which = down ? f->down : i % 2 == 0 ? f->gate : f->up;

    snprintf(out, NAME, "%s.%lld.%s.weight", f->experts,
             (long long)(down ? i : i / 2), which);
}

/* The i-th tensor's name without its prefix; false where the family has no
** such form. */
static bool tensor_name(const struct model *m, const struct param *p,
                        enum param_pack form, int64_t i, char *out)
{
    const char *name = NULL;

    switch (form) {
    case PACK_NONE: name = p->tensor; break;
    case PACK_QKVZ: name = m->names->fused_qkvz; break;
    case PACK_BA: name = m->names->fused_ba; break;
    case PACK_ROUTER: name = m->names->router; break;
    case PACK_EACH_EXPERT: expert_name(m, p, i, out); return true;
    }
    if (name != NULL) snprintf(out, NAME, "%s", name);
    return name != NULL;
}

int stored_form(const struct checkpoint *c, const struct model *m,
                const struct param *p, enum param_pack *out, struct err *e)
{
    char packed[NAME], own[NAME], other[NAME];
    bool known = p->pack != PACK_NONE
        && tensor_name(m, p, p->pack, 0, packed);

    *out = PACK_NONE;
    if (has(c, m, p, p->tensor)) return ERR_OK;
    stored_full_name(m, p->layer, p->tensor, own, sizeof own);
    if (!known)
        return err_set(e, ERR_INPUT, "%s: tensor %s is missing (peakproof "
                       "doctor --weights says what a folder holds)",
                       checkpoint_folder(c), own);
    *out = p->pack;
    if (has(c, m, p, packed)) return ERR_OK;
    stored_full_name(m, p->layer, packed, other, sizeof other);
    return err_set(e, ERR_INPUT, "%s: tensor %s is missing, and so is %s "
                   "(peakproof doctor --weights says what a folder holds)",
                   checkpoint_folder(c), own, other);
}

int64_t stored_tensors(const struct model *m, const struct param *p,
                       enum param_pack form)
{
    if (form != PACK_EACH_EXPERT) return 1;
    return p->site == SITE_EXPERT_DOWN ? m->experts : 2 * m->experts;
}

/* Trailing ones are no dimensions. */
static int64_t own_dims(const struct model *m, const struct param *p,
                        int64_t dim[4])
{
    int64_t n = 4;

    memcpy(dim, p->dim, 4 * sizeof *dim);
    if (site_is_routed(p->site))
        dim[0] = m->experts;
    while (n > 1 && dim[n - 1] == 1) n--;
    return n;
}

static int64_t dims_of(const struct model *m, const struct param *p,
                       enum param_pack form, int64_t dim[4])
{
    bool down = p->site == SITE_EXPERT_DOWN;

    if (form == PACK_NONE || form == PACK_ROUTER) return own_dims(m, p, dim);
    if (form == PACK_EACH_EXPERT) {
        dim[0] = down ? m->hidden : m->expert_ffn;
        dim[1] = down ? m->expert_ffn : m->hidden;
    } else {
        dim[0] = form == PACK_BA ? 2 * m->v_heads
            : model_conv_channels(m) + model_value(m);
        dim[1] = m->hidden;
    }
    return 2;
}

int stored_find(const struct checkpoint *c, const struct model *m,
                const struct param *p, enum param_pack form, int64_t i,
                const struct checkpoint_tensor **out, struct err *e)
{
    char name[NAME], full[NAME];
    int64_t dim[4], n = dims_of(m, p, form, dim);

    if (!tensor_name(m, p, form, i, name))
        return err_set(e, ERR_RUN, "%s: no such form", p->tensor);
    stored_full_name(m, p->layer, name, full, sizeof full);
    return checkpoint_find(c, full, dim, n, out, e);
}
