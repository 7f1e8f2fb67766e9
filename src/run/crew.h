/*
** crew.h - how the ranks of a case reach each other and which GPU each
** takes.
**
** On cpu, and on cuda with fewer GPUs than ranks, ranks are threads that
** share memory (comm_local); on cuda they then share GPU 0. With a GPU for
** each, NCCL joins them: threads of this process, or one process each when a
** launcher started several.
*/
#ifndef RUN_CREW_H
#define RUN_CREW_H

#include "run/ranks.h"

/* Sets gpu of every rank, and comm or r->crew. */
int crew_make(struct ranks *r, struct err *e) MUST_CHECK;
/* In the rank's own thread, with its device open: its communicator. */
int crew_join(struct ranks_one *o, struct err *e) MUST_CHECK;
/* What became of this rank, to ranks that wait for it. */
void crew_tell(struct ranks_one *o, const char *text);
/* In the rank's own thread: NCCL's communicators close together. */
void crew_leave(struct ranks_one *o);
void crew_free(struct ranks *r);

/* Do all ranks of the case take their memory from one device? */
bool crew_shares_gpu(const struct run_work *w);

/* Does this process run the rank? */
bool crew_is_here(const struct ranks *r, int64_t rank);

/* ---- several processes (processes.c) ------------------------------------ */

/* Meets the other processes, if the environment says that there are some:
** *line is NULL otherwise. interrupt and waiting are rendezvous.h's. */
int processes_meet(const struct launch *l, const struct cuda_module *m,
                   const atomic_int *interrupt,
                   void (*waiting)(const char *text), struct line **line,
                   struct err *e) MUST_CHECK;
/* The same result on all: this process's, or else the first other that
** failed. Where there are no others, rc. */
int processes_agree(const struct run_context *x, int rc, struct err *e);
/* Result code, waves and routes of every rank to every process. */
int processes_exchange(struct ranks *r, struct err *e) MUST_CHECK;
/* What the records keep of each rank to rank 0, with how noting it went (rc
** and e): the first rank that failed is everybody's result on rank 0. */
int processes_gather(struct run_work *w, const struct ranks *r, int rc,
                     struct err *e) MUST_CHECK;

/* ---- the driver's view (driver.c) --------------------------------------- */

/* Used bytes of the rank's GPU; nothing where the device cannot tell. */
void driver_before(struct ranks *r);
void driver_after(struct ranks *r);
/* Watches the segments that the rank takes from its device. */
struct mem_source driver_watch(struct ranks_one *o);
/* Rows of device.csv for the ranks of this process. */
int driver_note(struct run_work *w, const struct ranks *r, struct err *e)
    MUST_CHECK;

#endif
