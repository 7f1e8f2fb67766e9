/* alarm.c - see alarm.h: the one for threads */
#include "comm/alarm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE_MOST = 64 };

struct shared {
    struct alarm alarm;
    pthread_mutex_t lock;
    int size;
    uint64_t turn[SIZE_MOST];
    bool raised;
    char cause[ALARM_CAUSE];
};

static void shared_raise(struct alarm *a, const char *cause)
{
    struct shared *s = (struct shared *)a;

    pthread_mutex_lock(&s->lock);
    if (!s->raised) snprintf(s->cause, sizeof s->cause, "%s", cause);
    s->raised = true;
    pthread_mutex_unlock(&s->lock);
}

static bool shared_raised(struct alarm *a, char cause[ALARM_CAUSE])
{
    struct shared *s = (struct shared *)a;
    bool raised;

    pthread_mutex_lock(&s->lock);
    raised = s->raised;
    if (raised) snprintf(cause, ALARM_CAUSE, "%s", s->cause);
    pthread_mutex_unlock(&s->lock);
    return raised;
}

static void shared_came(struct alarm *a, int rank, uint64_t turn)
{
    struct shared *s = (struct shared *)a;

    pthread_mutex_lock(&s->lock);
    s->turn[rank] = turn;
    pthread_mutex_unlock(&s->lock);
}

static bool shared_here(struct alarm *a, uint64_t turn)
{
    struct shared *s = (struct shared *)a;
    bool all = true;

    pthread_mutex_lock(&s->lock);
    for (int r = 0; r < s->size; r++) all = all && s->turn[r] >= turn;
    pthread_mutex_unlock(&s->lock);
    return all;
}

static void shared_late(struct alarm *a, uint64_t turn, char *who, size_t n)
{
    struct shared *s = (struct shared *)a;
    size_t used = 0;

    who[0] = '\0';
    pthread_mutex_lock(&s->lock);
    for (int r = 0; r < s->size && used + 8 < n; r++)
        if (s->turn[r] < turn)
            used += (size_t)snprintf(who + used, n - used, "%s%d",
                                     used > 0 ? ", " : "", r);
    pthread_mutex_unlock(&s->lock);
}

static const struct alarm_ops shared_ops = {
    shared_raise, shared_raised, shared_came, shared_here, shared_late
};

int alarm_threads(int size, struct alarm **out, struct err *e)
{
    struct shared *s;

    if (size < 1 || size > SIZE_MOST)
        return err_set(e, ERR_USAGE, "ranks: %d is not 1 to %d", size,
                       SIZE_MOST);
    s = calloc(1, sizeof *s);
    if (s == NULL) return err_nomem(e);
    s->alarm.ops = &shared_ops;
    s->size = size;
    pthread_mutex_init(&s->lock, NULL);
    *out = &s->alarm;
    return ERR_OK;
}

void alarm_free(struct alarm *a)
{
    struct shared *s = (struct shared *)a;

    if (s == NULL) return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}
