/* account_notes.c - what must be known before a snapshot's numbers are
** believed, see account.h. */
#include <inttypes.h>
#include <string.h>

#include "snapshot/account.h"

#define MIB (UINT64_C(1) << 20)

struct notes {
    json_t *list;
    struct buf line;
    bool failed;
};

static void end_line(struct notes *n)
{
    json_t *s = n->line.failed ? NULL : json_string(buf_text(&n->line));

    if (json_array_append_new(n->list, s) != 0) n->failed = true;
    n->line.len = 0;
    if (n->line.data != NULL) n->line.data[0] = '\0';
}

static void put_bytes(struct notes *n, uint64_t bytes)
{
    buf_put_grouped(&n->line, (int64_t)bytes);
    buf_puts(&n->line, " B");
}

static void note_history(struct notes *n, const struct account *a)
{
    if (a->history) return;
    buf_puts(&n->line, a->s->segments_alone
             ? "segments alone (torch.cuda.memory_snapshot): a state, without "
               "a peak"
             : "no history was recorded: a state, without a peak");
    buf_puts(&n->line, " (to record one: torch.cuda.memory."
             "_record_memory_history() before the step, torch.cuda.memory."
             "_dump_snapshot(\"file.pickle\") after it)");
    end_line(n);
}

/* A ring that overflowed hides peaks: said before any number. */
static void note_start(struct notes *n, const struct account *a)
{
    if (a->history && a->s->overflowed) {
        buf_puts(&n->line, "the ring buffer overflowed (");
        buf_put_grouped(&n->line, a->s->max_entries > 0 ? a->s->max_entries
                                                        : a->walk.events);
        buf_puts(&n->line, " entries kept): peaks are of the last ");
        buf_put_grouped(&n->line, a->walk.events);
        buf_puts(&n->line, " events only; before, allocated may have been up "
                 "to ");
        put_bytes(n, a->walk.initial.reserved);
        buf_puts(&n->line, " (reserved); record with a larger max_entries");
        end_line(n);
    }
    if (a->history && a->walk.initial.allocated > 0) {
        buf_puts(&n->line, "begins in mid-run with ");
        put_bytes(n, a->walk.initial.allocated);
        buf_puts(&n->line, " allocated");
        end_line(n);
    }
    if (a->walk.assumed == 0) return;
    buf_puts(&n->line, "the file leaves the size of ");
    buf_put_grouped(&n->line, a->walk.assumed);
    buf_puts(&n->line, " blocks at the start open: until they are freed "
             "allocated may be up to ");
    put_bytes(n, a->start.open_bytes);
    buf_puts(&n->line, " more");
    end_line(n);
}

/* A recorded failure is what most files were written for. */
static void note_ooms(struct notes *n, const struct account *a)
{
    for (int64_t i = 0; i < a->walk.n_oom && i < 8; i++) {
        const struct walk_oom *o = &a->walk.oom[i];

        const struct snapshot_event *v =
            &a->s->device[a->device].event[o->event];
        char key[300] = "";

        if (v->stack != 0)
            compose_key(a->s, BY_FRAME, NULL,
                        &(struct live_block){.stack = v->stack}, o->event,
                        key, sizeof key);
        buf_printf(&n->line, "out of memory at event %" PRId64 ": %s%sasked ",
                   o->event, key, key[0] != '\0' ? " " : "");
        put_bytes(n, o->asked);
        if (o->free != UINT64_MAX) {
            buf_puts(&n->line, " with ");
            put_bytes(n, o->free);
            buf_puts(&n->line, " free on the device");
        }
        buf_puts(&n->line, "; ");
        put_bytes(n, o->now.allocated);
        buf_puts(&n->line, " allocated, ");
        put_bytes(n, o->now.reserved);
        buf_puts(&n->line, " reserved");
        if (o->now.reserved > o->now.allocated) {
            buf_puts(&n->line, " (");
            put_bytes(n, o->now.reserved - o->now.allocated);
            buf_puts(&n->line, " of that cached)");
        }
        end_line(n);
    }
    if (a->walk.n_oom <= 8) return;
    buf_printf(&n->line, "out of memory %" PRId64 " times more",
               a->walk.n_oom - 8);
    end_line(n);
}

static void note_frames(struct notes *n, const struct account *a)
{
    const struct snapshot_device *d = &a->s->device[a->device];
    int64_t all = 0, none = 0;

    for (int64_t i = 0; i < d->n_event; i++) {
        if (d->event[i].action != SNAPSHOT_ALLOC) continue;
        all++;
        none += d->event[i].stack == 0;
    }
    if (none == 0) return;
    if (none == all) {
        buf_puts(&n->line, "no frames were recorded (record with "
                 "stacks=\"python\", context=\"all\")");
    } else {
        buf_printf(&n->line, "%" PRId64 " of %" PRId64 " allocations have no "
                   "frames", none, all);
    }
    end_line(n);
}

static void note_devices(struct notes *n, const struct account *a)
{
    int64_t many = 0;

    for (int64_t i = 0; i < a->s->n_device; i++)
        many += a->s->device[i].n_event > 0 || a->s->device[i].n_segment > 0;
    if (many < 2) return;
    buf_printf(&n->line, "one of %" PRId64 " devices in this file", many);
    end_line(n);
}

static void note_settings(struct notes *n, const struct account *a)
{
    const struct snapshot_device *d = &a->s->device[a->device];
    int64_t freed = 0;

    if (a->s->idle[0] == '\0' || !a->history) return;
    for (int64_t i = 0; i < d->n_event; i++)
        freed += d->event[i].action == SNAPSHOT_SEGMENT_FREE
              || d->event[i].action == SNAPSHOT_OOM;
    buf_printf(&n->line, freed == 0
               ? "%s decided nothing: no out-of-memory and no freed segment"
               : "%s: what it gave back or refused is taken from the trace",
               a->s->idle);
    end_line(n);
}

/* Whether our allocator would have done the same, or why that is not known. */
static void note_model(struct notes *n, const struct account *a)
{
    const struct replay *r = &a->replay;

    if (a->history && !a->predicted) {
        buf_printf(&n->line, "not predicted, but followed as recorded: %s",
                   a->reason);
        end_line(n);
    }
    if (a->predicted && (r->address_mismatches | r->segment_mismatches) != 0) {
        buf_printf(&n->line, "our allocator differs from the recorded one: %"
                   PRIu64 " blocks and %" PRIu64 " segments elsewhere; the "
                   "bytes are those recorded", r->address_mismatches,
                   r->segment_mismatches);
        end_line(n);
    }
    for (int64_t i = 0; i < a->s->n_unknown; i++) {
        const struct snapshot_unknown *u = &a->s->unknown[i];

        buf_printf(&n->line, "passed over %" PRId64 " event%s of unknown "
                   "action \"%s\"", u->events, u->events == 1 ? "" : "s",
                   u->action);
        end_line(n);
    }
    if (a->history && memcmp(&a->walk.final, &a->walk.recorded,
                             sizeof a->walk.final) != 0) {
        buf_puts(&n->line, "the trace ends with ");
        put_bytes(n, a->walk.final.allocated);
        buf_puts(&n->line, " allocated, the file's blocks sum to ");
        put_bytes(n, a->walk.recorded.allocated);
        end_line(n);
    }
}

/* What other settings lead to, also when they change nothing. */
static void note_set(struct notes *n, const struct account *a,
                     const struct account_ask *ask)
{
    const struct replay *r = &a->set;

    if (ask->idle != NULL) {
        buf_printf(&n->line, "%s changes nothing in a replay", ask->idle);
        end_line(n);
    }
    if (!a->is_set) return;
    if (!a->predicted) {
        buf_puts(&n->line, "with --set: not checked against the record");
        end_line(n);
    }
    if (ask->set->limit_bytes != 0
        && ask->set->limit_bytes < a->walk.initial.reserved) {
        buf_puts(&n->line, "the limit is below the ");
        put_bytes(n, a->walk.initial.reserved);
        buf_puts(&n->line, " that were reserved before the trace");
        end_line(n);
    }
    if (r->ooms > 0) {
        buf_printf(&n->line, "with %.200s: %" PRIu64 " request%s, the first "
                   "at event %" PRId64, ask->set_text, r->ooms,
                   r->ooms == 1 ? " fails" : "s fail", r->first_oom);
        end_line(n);
    }
    if (r->address_mismatches == 0 && r->segment_mismatches == 0) {
        buf_printf(&n->line, "with %.200s: every block and segment stays where "
                   "it was recorded", ask->set_text);
        end_line(n);
    }
}

json_t *account_notes(const struct account *a, const struct account_ask *ask)
{
    struct notes n = {json_array(), BUF_INIT, false};

    if (n.list == NULL) return NULL;
    note_history(&n, a);
    note_start(&n, a);
    note_ooms(&n, a);
    note_devices(&n, a);
    note_frames(&n, a);
    note_settings(&n, a);
    note_model(&n, a);
    note_set(&n, a, ask);
    buf_free(&n.line);
    if (n.failed) {
        json_decref(n.list);
        return NULL;
    }
    return n.list;
}
